'use strict';

const assert = require('node:assert');
const { afterEach, beforeEach, test } = require('node:test');
const { Billing, EVENTS, Orders, REMINDERS } = require('./orders');
const { PocketMq } = require('./pocketmq');

let mq;
let open;

beforeEach(async () => {
  open = [];
  mq = await PocketMq.start();
  await mq.topic(EVENTS, 'NORMAL');
  await mq.topic(REMINDERS, 'DELAY');
  await mq.ask('PUT', '/groups/billing', {});
});

afterEach(async () => {
  for (const client of open) {
    await client.close();
  }
  await mq.stop();
});

async function started(client) {
  open.push(client);
  return client.start();
}

test('a reminder comes after two hours', async () => {
  const orders = await started(new Orders(mq.endpoints));
  await orders.order('4711', 'book');
  await mq.ask('POST', '/clock/advance', { minutes: 119 });
  assert.deepStrictEqual(await mq.published(REMINDERS, 0), []);
  await mq.ask('POST', '/clock/advance', { minutes: 1 });
  assert.deepStrictEqual(await mq.published(REMINDERS, 1), ['4711']);
});

test('what cannot be billed comes again', async () => {
  const orders = await started(new Orders(mq.endpoints));
  let isDown = true;
  const billing = await started(
    new Billing(mq.endpoints, async () => {
      if (isDown) throw new Error('the bank does not answer');
    }),
  );
  await orders.order('4711', 'book');
  assert.deepStrictEqual(await billing.billOnce(), new Map([['book', 1]]));
  isDown = false;
  await mq.ask('POST', '/clock/advance', { seconds: 10 });
  assert.deepStrictEqual(await billing.billOnce(), new Map([['book', 2]]));
  assert.strictEqual((await mq.ask('POST', '/groups/billing/drain', {})).left, 0);
});

test('a broker that is busy is asked again', async () => {
  const orders = await started(new Orders(mq.endpoints));
  const fault = await mq.ask('POST', '/faults', {
    kind: 'answer', code: 'SYSTEM_BUSY', request: 'SEND_MESSAGE', topic: EVENTS, times: 1,
  });
  await orders.order('4711', 'book');
  assert.deepStrictEqual(await mq.published(EVENTS, 1), ['book']);
  assert.strictEqual((await mq.ask('GET', `/faults/${fault.id}`)).count, 1);
});
