'use strict';

// Plays all scenarios with RocketMQ 5's SDK for Node.js, and prints one JSON document.
// Arguments: endpoints, "tls" or "plain", access key, secret.

const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');
const {
  FilterType, TransactionResolution,
} = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const PATIENCE_MS = 40_000;
// The SDK takes no answer of more than 4 MiB, and a message is more than its body.
const LARGE = 4 * 1024 * 1024 - 4096;
const [endpoints, , accessKey, accessSecret] = process.argv.slice(2);
const configuration = {
  endpoints,
  namespace: '',
  ...(accessKey ? { sessionCredentials: { accessKey, accessSecret } } : {}),
};
const seen = {};

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const message = (topic, body, fields = {}) => ({ topic, body: Buffer.from(body), ...fields });

async function producer(topic, checker) {
  const out = new Producer({ ...configuration, topics: [topic], checker });
  await out.startup();
  return out;
}

/** Bodies, in order; long ones by their length. */
async function received(group, topic, count, tag = '*', handle = async () => {}) {
  const consumer = new SimpleConsumer({
    ...configuration,
    consumerGroup: group,
    subscriptions: new Map([[topic, tag]]),
    awaitDuration: 5000,
  });
  await consumer.startup();
  const bodies = [];
  for (const end = Date.now() + PATIENCE_MS; bodies.length < count && Date.now() < end;) {
    for (const view of await consumer.receive(16, 30_000)) {
      const body = view.body.toString();
      await handle(consumer, view, body);
      bodies.push(body.length > 100 ? `long ${body.length}` : body);
      await consumer.ack(view);
    }
  }
  await consumer.shutdown();
  return bodies.sort();
}

async function simple() {
  const sender = await producer('Normal');
  await sender.send(message('Normal', 'first', {
    tag: 'A', keys: ['k1'], properties: new Map([['p', 'v']]),
  }));
  await sender.send(message('Normal', 'unwanted', { tag: 'B' }));
  await sender.send(message('Normal', 'x'.repeat(LARGE), { tag: 'A' }));
  await sender.shutdown();
  seen.simple = await received('simple', 'Normal', 2, 'A', async (consumer, view, body) => {
    if (body === 'first') {
      seen.properties = Object.fromEntries(view.properties);
      seen.keys = view.keys;
      await consumer.changeInvisibleDuration(view, 60_000);
    }
  });
}

async function filters() {
  const sender = await producer('Filtered');
  for (let a = 1; a <= 5; a++) {
    const properties = new Map([['a', String(a)]]);
    await sender.send(message('Filtered', `a${a}`, { properties }));
  }
  await sender.shutdown();
  const expression = new FilterExpression('a > 3 AND a IS NOT NULL', FilterType.SQL);
  seen.filtered = await received('filtered', 'Filtered', 2, expression);
}

async function batch() {
  const sender = await producer('Batch');
  for (let i = 0; i < 32; i++) {
    await sender.send(message('Batch', `m${i}`));
  }
  await sender.shutdown();
  const consumer = new SimpleConsumer({
    ...configuration,
    consumerGroup: 'batch',
    subscriptions: new Map([['Batch', '*']]),
    awaitDuration: 5000,
  });
  await consumer.startup();
  const views = await consumer.receive(32, 30_000);
  for (const view of views) {
    await consumer.ack(view);
  }
  await consumer.shutdown();
  seen.batch = views.map((view) => view.body.toString());
}

/** A client of remoting has sent the message, compressed. */
async function remoting() {
  seen.remoting = await received('remoting', 'Remoting', 1);
}

async function pushed(topic, group, count, isGood) {
  const got = [];
  const consumer = new PushConsumer({
    ...configuration,
    consumerGroup: group,
    subscriptions: new Map([[topic, '*']]),
    messageListener: {
      async consume(view) {
        const one = { body: view.body.toString(), attempt: view.deliveryAttempt };
        got.push(one);
        return isGood(one) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
      },
    },
  });
  await consumer.startup();
  for (const end = Date.now() + PATIENCE_MS; got.length < count && Date.now() < end;) {
    await sleep(50);
  }
  await sleep(2000);
  // It is not shut down: that would wait for the receives that are held, 20 seconds.
  return got;
}

async function push() {
  const sender = await producer('Push');
  for (let i = 0; i < 5; i++) {
    await sender.send(message('Push', `m${i}`));
  }
  await sender.shutdown();
  const got = await pushed('Push', 'push', 7,
    ({ body, attempt }) => body !== 'm1' && (body !== 'm0' || attempt > 1));
  seen.push = got.map(({ body, attempt }) => `${body}/${attempt}`).sort();
}

async function order() {
  const sender = await producer('Ordered');
  for (let i = 0; i < 6; i++) {
    await sender.send(message('Ordered', `m${i}`, { messageGroup: 'g' }));
  }
  await sender.shutdown();
  seen.ordered = (await pushed('Ordered', 'ordered', 6, () => true)).map(({ body }) => body);
}

async function delay() {
  const sender = await producer('Delayed');
  const due = new Date(Date.now() + 3000);
  await sender.send(message('Delayed', 'later', { deliveryTimestamp: due }));
  const recalled = await sender.send(message('Delayed', 'never', { deliveryTimestamp: due }));
  const receipt = await sender.recallMessage('Delayed', recalled.recallHandle);
  seen.recalled = JSON.stringify(receipt).includes(recalled.messageId);
  seen.delayed = await received('delayed', 'Delayed', 1);
  if (Date.now() < due) {
    seen.delayed.push('early');
  }
  await sender.shutdown();
}

async function transactions() {
  const checker = {
    async check(view) {
      return view.body.toString() === 'orphan'
        ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
    },
  };
  const sender = await producer('Half', checker);
  for (const body of ['committed', 'rolled back', 'orphan']) {
    const transaction = sender.beginTransaction();
    await sender.send(message('Half', body), transaction);
    if (body === 'committed') {
      await transaction.commit();
    } else if (body === 'rolled back') {
      await transaction.rollback();
    }
  }
  seen.transactions = await received('half', 'Half', 2);
  await sender.shutdown();
}

/** Goes on by itself after its broker was gone; a line of standard input tells that it was. */
async function restart() {
  const sender = await producer('Normal');
  await sender.send(message('Normal', 'before'));
  const consumer = new SimpleConsumer({
    ...configuration,
    consumerGroup: 'restart',
    subscriptions: new Map([['Normal', '*']]),
    awaitDuration: 5000,
  });
  await consumer.startup();
  const bodies = new Set();
  let isSent = false;
  for (const end = Date.now() + PATIENCE_MS; !bodies.has('after') && Date.now() < end;) {
    try {
      if (bodies.has('before') && !isSent) {
        console.log('ready');
        await new Promise((resolve) => process.stdin.once('data', resolve));
        await sender.send(message('Normal', 'after'));
        isSent = true;
      }
      for (const view of await consumer.receive(16, 30_000)) {
        bodies.add(view.body.toString());
        await consumer.ack(view);
      }
    } catch (error) { // while the broker is not back
      console.error(String(error));
      await sleep(100);
    }
  }
  seen.restart = [...bodies].sort();
}

(async () => {
  const scenarios = process.argv.includes('restart')
    ? [restart] : [simple, filters, batch, remoting, push, order, delay, transactions];
  for (const scenario of scenarios) {
    await scenario();
  }
  console.log(JSON.stringify(seen));
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
