import { setTimeout as delay } from 'node:timers/promises';
import { someUpload } from '../crash/load.mjs';
import { begin, send } from './client.mjs';
import { LiveWatch, MOST_LIVE_MS } from './live-watch.mjs';

/** The time in which the service must be ready again by itself after a trouble has ended. */
const RECOVERY_MS = 10_000;
/** The time limit of a start. It is long, because a busy machine starts processes slowly. */
const START_MS = 120_000;
const STOP_MS = 30_000;
const SHUTDOWN_TIMEOUT_MS = 2_000;
const CLIENTS = 4;
const LONGEST_PAUSE_MS = 40;
const DOWN_PAUSE_MS = 50;
const WATCH_MS = 250;
/** How long `/health/ready` may answer 200 from its cache after the state has changed, with a margin. */
const READY_CACHED_MS = 1_100;
/**
 * How long `/health/ready` may answer 200 although uploads fail: its result is cached for a second, and a check may
 * take seconds.
 */
const READY_LAG_MS = 4_000;
const LARGEST_FILE = 300_000;

/** Thrown when a history can't continue because the service doesn't start. */
export class HistoryOver extends Error {}

/** A service process under test. */
export class Replica {
  #world;
  #variables;
  #isStopping = false;
  #refusals;

  constructor(world, port, variables) {
    this.#world = world;
    this.#variables = variables;
    this.port = port;
  }

  get pid() {
    return this.service.child.pid;
  }

  /**
   * Starts the service and waits until it is ready.
   *
   * @param {{ mayName?: string[] }} [options] texts, such as paths, that name valid reasons for not starting. The
   * service must then print one line that contains one of them.
   * @returns {Promise<string | undefined>} that line; undefined when the service is ready.
   * @throws HistoryOver when the service doesn't start for another reason, which is also recorded as a finding.
   */
  async start({ mayName = [] } = {}) {
    const { model } = this.#world;
    const { outcome, line } = await this.launch(this.#variables);
    if (outcome === 'ready') return undefined;
    if (line !== undefined && mayName.some((name) => line.includes(name))) return line;
    const reason = outcome === 'ended' ? 'its output' : `it isn't ready after ${START_MS / 1000} s`;
    model.find('start', `the service doesn't start: ${reason}: ${this.service.output.trim().slice(0, 500) || 'nothing'}`);
    await this.service.end('SIGKILL');
    throw new HistoryOver();
  }

  /**
   * Starts the service and waits until it is ready or has ended, or 120 s have passed. `line` is the line that the
   * service printed besides its log, if it has ended and has printed exactly one.
   */
  async launch(variables = this.#variables) {
    const service = this.#world.services.launch({ PORT: String(this.port), SHUTDOWN_TIMEOUT_MS: String(SHUTDOWN_TIMEOUT_MS), ...variables });
    this.service = service;
    this.#world.live?.serves(this.port, this.pid);
    this.#isStopping = false;
    void service.exited.then(({ code, signal }) => {
      if (this.#isStopping || this.service !== service || this.isStarting) return;
      this.#world.model.find('start', `the service ended by itself with ${signal ?? code}: ${service.output.trim().slice(-500)}`);
    });
    this.isStarting = true;
    const waited = new AbortController();
    const silence = delay(START_MS, 'silent', { signal: waited.signal }).catch(() => undefined);
    const outcome = await Promise.race([service.ready.then(() => 'ready', () => 'ended'), silence]);
    waited.abort();
    this.isStarting = false;
    this.isUp = outcome === 'ready';
    const lines = service.output.split('\n').filter((line) => line !== '' && !line.startsWith('{'));
    return { outcome, line: outcome === 'ended' && lines.length === 1 ? lines[0] : undefined };
  }

  /**
   * Ends the service. It is a finding if the service doesn't end in 30 s, or ends with another exit code than 0 after
   * SIGTERM.
   *
   * @param {'SIGKILL' | 'SIGTERM'} signal
   */
  async stop(signal) {
    const { model } = this.#world;
    this.#isStopping = true;
    this.isUp = false;
    const waited = new AbortController();
    const silence = delay(STOP_MS, undefined, { signal: waited.signal }).catch(() => undefined);
    const ended = await Promise.race([this.service.end(signal), silence]);
    waited.abort();
    if (!ended) {
      model.find('start', `the service doesn't end by ${signal} within ${STOP_MS / 1000} s`);
      await this.service.end('SIGKILL');
    } else if (signal === 'SIGTERM' && ended.code !== 0) {
      model.find('start', `the service ends by SIGTERM with ${ended.signal ?? ended.code}: ${this.service.output.trim().slice(-300)}`);
    }
  }

  async ensureUp() {
    if (this.service.child.exitCode === null && this.service.child.signalCode === null) return;
    await this.start();
  }

  async upload(upload, { pace, ...options } = {}) {
    const { model } = this.#world;
    const attempt = model.attempt(upload, { ...options, service: this.service });
    try {
      const answer = await send(this.port, upload, pace);
      model.answered(attempt, answer);
      return answer;
    } catch (error) {
      model.unanswered(attempt, error);
      return undefined;
    }
  }

  /**
   * Sends the first part of an upload, which is never completed.
   *
   * @param {number} share the share of the body that is sent, from 0 to 1
   * @returns {Promise<import('node:net').Socket>} the connection of the upload.
   */
  async beginUpload(upload, share) {
    const attempt = this.#world.model.attempt(upload);
    const socket = await begin(this.port, upload, share);
    socket.once('close', () => this.#world.model.abandoned(attempt));
    return socket;
  }

  async readiness() {
    const answer = await send(this.port, { method: 'GET', path: '/health/ready' }).catch(() => undefined);
    return answer?.status;
  }

  async untilReady(mostMs = RECOVERY_MS) {
    return this.#until((status) => status === 200, mostMs);
  }

  async untilNotReady(mostMs = RECOVERY_MS) {
    return this.#until((status) => status !== 200, mostMs);
  }

  async #until(isWanted, mostMs) {
    const began = performance.now();
    while (!isWanted(await this.readiness())) {
      if (performance.now() - began > mostMs) return false;
      await delay(DOWN_PAUSE_MS);
    }
    return true;
  }

  /**
   * Requests `/health/ready` repeatedly. One request isn't enough: an upload may hang for seconds because of a fault
   * that is over before the upload fails.
   *
   * @returns {Promise<() => Promise<boolean>>} a function that ends the requests, and resolves to whether each answer
   * was 200.
   */
  async #watchedReadiness() {
    let isEnded = false;
    let wasReady = (await this.readiness()) === 200;
    const asking = (async () => {
      while (!isEnded) {
        await delay(WATCH_MS);
        wasReady &&= (await this.readiness()) === 200;
      }
    })();
    return async () => {
      isEnded = true;
      await asking;
      return wasReady;
    };
  }

  async watchReadiness(random, isOver) {
    const { model } = this.#world;
    while (!isOver()) {
      await delay(WATCH_MS);
      if (!this.isUp || this.#world.isQuiet) {
        this.#refusals = undefined;
        continue;
      }
      const readyWhile = await this.#watchedReadiness();
      const answers = {
        'an upload': await this.upload(this.#world.someUpload(random)),
        'a keyed upload': await this.upload(this.#world.keyed(this.#world.someUpload(random))),
        'an identity operation': this.#world.identity?.last,
      };
      const wasReady = await readyWhile();
      const refused = Object.keys(answers).filter((name) => answers[name]?.status >= 500);
      if (!wasReady || refused.length === 0) {
        this.#refusals = undefined;
        continue;
      }
      this.#refusals ??= performance.now();
      if (performance.now() - this.#refusals < READY_LAG_MS) continue;
      const { status, headers } = answers[refused[0]];
      const finding = model.find('ready', `/health/ready answers 200, but ${refused.join(' and ')} is answered with ${status}, for ${READY_LAG_MS / 1000} s`);
      void model.explain(finding, this.service, headers?.['x-request-id']);
      this.#refusals = undefined;
    }
  }
}

export class World {
  /** Functions that undo what was done to the world. The last added runs first. */
  #undo = [];
  #beside = [];
  #isOver = false;
  isQuiet = false;
  liveAnswers = { probes: 0, starved: 0 };

  constructor({ services, model, random }) {
    this.services = services;
    this.model = model;
    this.random = random;
  }

  someUpload(random, sizes = { largest: LARGEST_FILE }) {
    const upload = someUpload(random, this.model.ledger.nextName(), sizes);
    return upload;
  }

  keyed(upload) {
    return { ...upload, headers: { ...upload.headers, 'Idempotency-Key': upload.sent.filename } };
  }

  startTraffic(replica, seeds) {
    const isOver = () => this.#isOver;
    for (let client = 0; client < CLIENTS; client++) this.beside(this.#traffic(replica, seeds(), isOver));
    this.beside(replica.watchReadiness(seeds(), isOver));
  }

  async watchLive(replicas) {
    this.live = await LiveWatch.start(replicas.map(({ port }) => port), (late) => this.#late(late));
  }

  async endLive() {
    this.liveAnswers = (await this.live?.end()) ?? this.liveAnswers;
    this.live = undefined;
  }

  #late({ ms, bareMs, cpuMs, ranMs, status }) {
    if (this.model.troublesSince(performance.now() - ms).some(({ stalls }) => stalls)) return;
    if (status !== 200) this.model.find('live', `/health/live was answered with ${status} after ${ms} ms`);
    else {
      const machine = `a bare server took ${bareMs} ms at the same time, and the service waited ${cpuMs} ms for a CPU and ran for ${ranMs} ms`;
      this.model.find('live', `/health/live took ${ms} ms (the promise is ${MOST_LIVE_MS} ms; ${machine})`);
    }
  }

  async #traffic(replica, random, isOver) {
    while (!isOver()) {
      if (this.isQuiet) {
        await delay(DOWN_PAUSE_MS);
        continue;
      }
      const answer = await replica.upload(this.someUpload(random));
      await delay(answer ? random.below(LONGEST_PAUSE_MS) : DOWN_PAUSE_MS);
    }
  }

  beside(work) {
    this.#beside.push(work);
  }

  atEnd(undo) {
    this.#undo.push(undo);
  }

  async quieten() {
    this.#isOver = true;
    for (const undo of this.#undo.splice(0).reverse()) await undo();
    await Promise.all(this.#beside);
  }

  async dispose() {}

  /**
   * Causes a trouble. The trouble lasts until all its replicas are ready again by themselves. A replica that isn't
   * ready in time is a finding, and is restarted.
   *
   * @param {Omit<import('./model.mjs').Trouble, 'from' | 'until'>} trouble
   * @param {Replica[]} replicas the replicas that must be ready again after the trouble
   * @param {(begun: import('./model.mjs').Trouble) => Promise<void>} work causes the trouble, and ends its cause
   */
  async trouble(trouble, replicas, work) {
    const begun = this.model.begin(trouble);
    await work(begun);
    // For a moment, `/health/ready` may still answer 200 from its cache, as before the fault.
    await delay(READY_CACHED_MS);
    for (const replica of replicas) {
      if (await replica.untilReady()) continue;
      this.model.find('ready', `the service isn't ready ${RECOVERY_MS / 1000} s after the end of: ${trouble.name}`);
      begun.breaks = true;
      await replica.stop('SIGKILL');
      await replica.start();
    }
    this.model.end(begun);
  }

  /**
   * Stops a replica with a signal and starts it again.
   *
   * @param {object} [options]
   * @param {() => unknown} [options.meanwhile] runs while the replica is stopped. May return a function that undoes its
   *   effect. This function is called if the service doesn't start, and the service is then started again
   * @param {string[]} [options.mayName] paths that may prevent the start. The service must then print one line that
   *   names one of them
   * @returns {Promise<string | undefined>} that line; undefined if the first start succeeded
   */
  async restart(replica, signal, { name = signal === 'SIGKILL' ? 'kill -9' : signal, meanwhile = () => undefined, mayName } = {}) {
    let line;
    await this.trouble({ name, breaks: true, stalls: true }, [replica], async () => {
      await replica.stop(signal);
      const cure = await meanwhile();
      try {
        line = await replica.start({ mayName });
        if (line === undefined) return;
      } catch (error) {
        if (!(error instanceof HistoryOver) || !cure) throw error;
      }
      await cure();
      await replica.start();
    });
    return line;
  }
}
