'use strict';

const { spawn } = require('node:child_process');
const readline = require('node:readline');

/** A cluster in a process of its own, which ends with this one at the latest. */
class PocketMq {
  #process;
  #up;

  static async start() {
    const mq = new PocketMq();
    mq.#process = spawn(
      process.env.POCKETMQ ?? 'pocketmq',
      ['up', '--memory', '--namesrv-port', '0', '--broker-port', '0', '--grpc-port', '0',
        '--control', '0', '--output', 'json', '--stop-with-stdin'],
      { stdio: ['pipe', 'pipe', 'inherit'] },
    );
    for await (const line of readline.createInterface({ input: mq.#process.stdout })) {
      mq.#up = JSON.parse(line);
      return mq;
    }
    throw new Error('the cluster did not start; its reason is above');
  }

  /** What RocketMQ 5's SDKs call endpoints. */
  get endpoints() {
    return this.#up.grpc;
  }

  /** Asks the control API; all that can be asked is at /openapi.json. */
  async ask(method, path, body) {
    const answer = await fetch(this.#up.control + path, {
      method,
      headers: { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!answer.ok) {
      throw new Error(`${method} ${path}: ${await answer.text()}`);
    }
    return answer.json();
  }

  /** A topic for messages of a type: NORMAL, FIFO, DELAY or TRANSACTION. */
  async topic(name, type) {
    await this.ask('PUT', `/topics/${name}`, {
      queues: 1,
      settings: { attributes: { 'message.type': type } },
    });
  }

  /** What a topic holds, once it holds so many; nothing is consumed. */
  async published(topic, count) {
    const { messages } = await this.ask('GET', `/topics/${topic}/messages?waitFor=${count}`);
    return messages.map((message) => message.body);
  }

  async stop() {
    const gone = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.stdin.end();
    await gone;
  }
}

module.exports = { PocketMq };
