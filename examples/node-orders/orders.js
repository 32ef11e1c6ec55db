'use strict';

const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const EVENTS = 'OrderEvents';
const REMINDERS = 'OrderReminders';
const TWO_HOURS_MS = 2 * 60 * 60 * 1000;

/** Announces orders, and has itself reminded of each after two hours. */
class Orders {
  #producer;

  constructor(endpoints) {
    this.#producer = new Producer({ endpoints, namespace: '', topics: [EVENTS, REMINDERS] });
  }

  async start() {
    await this.#producer.startup();
    return this;
  }

  async order(id, article) {
    await this.#producer.send({ topic: EVENTS, keys: [id], body: Buffer.from(article) });
    await this.#producer.send({
      topic: REMINDERS,
      keys: [id],
      delay: TWO_HOURS_MS,
      body: Buffer.from(id),
    });
  }

  async close() {
    await this.#producer.shutdown();
  }
}

/** Bills what was ordered; what fails comes again after ten seconds. */
class Billing {
  #consumer;
  #bill;

  constructor(endpoints, bill) {
    this.#bill = bill;
    this.#consumer = new SimpleConsumer({
      endpoints,
      namespace: '',
      consumerGroup: 'billing',
      subscriptions: new Map([[EVENTS, '*']]),
      awaitDuration: 5000,
    });
  }

  async start() {
    await this.#consumer.startup();
    return this;
  }

  /** Bills what there is; returns how many attempts each article has taken so far. */
  async billOnce() {
    const attempts = new Map();
    for (const message of await this.#consumer.receive(16, 10_000)) {
      const article = message.body.toString();
      attempts.set(article, message.deliveryAttempt);
      try {
        await this.#bill(article);
      } catch {
        continue;
      }
      await this.#consumer.ack(message);
    }
    return attempts;
  }

  async close() {
    await this.#consumer.shutdown();
  }
}

module.exports = { Billing, EVENTS, Orders, REMINDERS };
