"""Draws the cluster: who sends, the servers with their queues, and who receives."""

from __future__ import annotations

from drawing import Drawing, Point

WIDTH, HEIGHT = 960, 430
CLIENT_WIDTH, CLIENT_HEIGHT = 200, 58
LEFT, RIGHT = 24, WIDTH - 24 - CLIENT_WIDTH
CENTRE = WIDTH / 2
SERVER_WIDTH = 330
SERVER_LEFT = CENTRE - SERVER_WIDTH / 2

SENDERS = (
    ("Python", "Producer"),
    ("Java, Go", "RocketMQ's own clients"),
    ("Spark", "df.write.format(…)"),
    ("Shell", "pocketmq send, produce"),
)
RECEIVERS = (
    ("Python", "push and pull consumers"),
    ("Java, Go", "RocketMQ's own clients"),
    ("Spark", "spark.read, readStream"),
    ("Shell", "pocketmq consume, tail"),
)
FIRST_CLIENT, CLIENT_STEP = 124, 72
BROKERS = (("broker-a", ":10911", 124), ("broker-b", ":11911", 270))
BROKER_HEIGHT = 132
QUEUES = 4


def picture() -> str:
    """The SVG document."""
    drawing = Drawing(
        WIDTH,
        HEIGHT,
        "A PocketMQ cluster: producers send to the queues of two brokers, consumers pull from "
        "them, and both ask a name server where the topics are",
    )
    _name_server(drawing)
    for name, port, top in BROKERS:
        _broker(drawing, name, port, top)
    _clients(drawing, LEFT, SENDERS)
    _clients(drawing, RIGHT, RECEIVERS)
    _ways(drawing)
    return drawing.svg()


def _name_server(drawing: Drawing) -> None:
    drawing.box(Point(SERVER_LEFT, 20), SERVER_WIDTH, 60, "server")
    drawing.text(Point(CENTRE, 45), "Name server :9876")
    drawing.text(Point(CENTRE, 66), "knows which broker has which topic", "note")


def _broker(drawing: Drawing, name: str, port: str, top: float) -> None:
    drawing.box(Point(SERVER_LEFT, top), SERVER_WIDTH, BROKER_HEIGHT, "server")
    drawing.text(Point(CENTRE, top + 25), f"Broker {name} {port}")
    width, gap = 66, 10
    first = CENTRE - (QUEUES * width + (QUEUES - 1) * gap) / 2
    for queue in range(QUEUES):
        left = first + queue * (width + gap)
        drawing.box(Point(left, top + 42), width, 40, "queue", radius=4)
        drawing.text(Point(left + width / 2, top + 58), "Orders", "note")
        drawing.text(Point(left + width / 2, top + 74), f"queue {queue}", "note")
    drawing.text(Point(CENTRE, top + 102), "on disk: one log for each queue,", "note")
    drawing.text(Point(CENTRE, top + 120), "offsets, groups and topics in meta.db", "note")


def _clients(drawing: Drawing, left: float, clients: tuple[tuple[str, str], ...]) -> None:
    for index, (name, what) in enumerate(clients):
        top = FIRST_CLIENT + index * CLIENT_STEP
        drawing.box(Point(left, top), CLIENT_WIDTH, CLIENT_HEIGHT, "plain")
        drawing.text(Point(left + CLIENT_WIDTH / 2, top + 25), name)
        drawing.text(Point(left + CLIENT_WIDTH / 2, top + 45), what, "note")


def _ways(drawing: Drawing) -> None:
    server_right = SERVER_LEFT + SERVER_WIDTH
    senders_right = LEFT + CLIENT_WIDTH
    for _, _, top in BROKERS:
        middle = top + BROKER_HEIGHT / 2
        drawing.arrow(Point(senders_right + 8, middle), Point(SERVER_LEFT - 4, middle))
        drawing.text(Point((senders_right + SERVER_LEFT) / 2, middle - 10), "send", "note")
        drawing.arrow(Point(server_right + 4, middle), Point(RIGHT - 8, middle))
        drawing.text(Point((server_right + RIGHT) / 2, middle - 10), "pull", "note")
    above = FIRST_CLIENT - 8
    for client, server in ((senders_right - 40, SERVER_LEFT), (RIGHT + 40, server_right)):
        toward = -4 if client < CENTRE else 4
        drawing.arrow(Point(client, above), Point(server + toward, 54), "asks")
    drawing.text(Point(LEFT + CLIENT_WIDTH / 2, 70), "where is the topic?", "note")
    drawing.text(Point(RIGHT + CLIENT_WIDTH / 2, 70), "where is the topic?", "note")
    drawing.arrow(Point(CENTRE, BROKERS[0][2] - 4), Point(CENTRE, 84), "asks")
    drawing.text(Point(CENTRE + 10, 108), "brokers register", "note", anchor="start")
