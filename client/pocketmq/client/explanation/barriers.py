"""Says what keeps a whole group from a record: permissions, settings, queues nobody reads."""

from __future__ import annotations

from pocketmq.client.explanation.case import Case, Place, Verdict
from pocketmq.client.explanation.states import Cause, State
from pocketmq.protocol.flags import is_readable, perm_text


async def explain_barriers(case: Case, place: Place) -> Verdict | None:
    """Decides about a record that the broker does not give to the group."""
    return await _of_topic(case, place) or await _of_group(case, place)


async def _of_topic(case: Case, place: Place) -> Verdict | None:
    topic = place.queue.topic
    config = await case.ask(
        f"the settings of {topic}", case.admin.topic_config(topic, place.address)
    )
    if config is None:
        return None
    if not is_readable(config.perm):
        case.found(
            Cause.TOPIC_NOT_READABLE,
            f"on {place.queue.broker_name} the permission of {topic} is {perm_text(config.perm)}",
            f"pocketmq topic update '{topic}' --perm rw",
        )
        return Verdict(State.FORBIDDEN, f"{topic} may not be read: its pulls are refused.")
    if place.queue.queue_id >= config.read_queue_nums:
        count = config.read_queue_nums
        case.found(
            Cause.QUEUE_NOT_READ,
            f"{topic} has {count} read queues on {place.queue.broker_name}, the message is in "
            f"queue {place.queue.queue_id}",
            f"pocketmq topic update '{topic}' --read-queues {place.queue.queue_id + 1}",
        )
        return Verdict(
            State.HIDDEN, f"it is in a queue of {topic} that no consumer reads: the topic was made "
            f"smaller, or has more write than read queues."
        )  # fmt: skip
    return None


async def _of_group(case: Case, place: Place) -> Verdict | None:
    group, topic = case.group, place.queue.topic
    configs = await case.ask(
        f"the settings of group {group}", case.admin.group_configs(group, broker_addr=place.address)
    )
    config = (configs or {}).get(place.address)
    if config is not None and not config.consume_enable:
        case.found(
            Cause.CONSUMING_DISABLED,
            f"on {place.queue.broker_name} consumeEnable of group {group} is false",
            f"pocketmq group update {group} --consume",
        )
        return Verdict(State.FORBIDDEN, f"group {group} may not consume: its pulls are refused.")
    forbidden = await case.ask(
        f"the topics that are forbidden to group {group}",
        case.admin.forbidden_topics(group, place.address),
    )
    if topic in (forbidden or ()):
        case.found(
            Cause.TOPIC_FORBIDDEN,
            f"an administrator has forbidden {topic} to group {group} on "
            f"{place.queue.broker_name} (updateGroupForbidden)",
            "allow it again, by request 353 (UPDATE_AND_GET_GROUP_FORBIDDEN), readable=true",
        )
        return Verdict(
            State.FORBIDDEN, f"group {group} may not read {topic}: its pulls are refused."
        )
    return None
