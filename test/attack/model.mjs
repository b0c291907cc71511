import { setTimeout as delay } from 'node:timers/promises';
import { Ledger } from '../crash/ledger.mjs';
import { DAY_MS, MINUTE_MS } from './clock.mjs';

/**
 * How close to its expiry, before or after, an idempotency key is uncertain: a repeated request may be a new upload or
 * not.
 */
const SLACK_MS = MINUTE_MS;
/** How long an upload whose client has disconnected may hold its idempotency key. */
const HOLDS_KEY_MS = 10_000;
/** The time after which an upload in progress may be answered with 408. */
const SLOW_MS = 10_000;
const LOG_MS = 500;
const LONGEST_LINE = 1_500;
const REFUSAL = '{"error":"Internal server error."}';

export const PROMISES = {
  start: 'the service starts by itself, or reports in one line why not',
  acknowledged: 'an acknowledged upload is stored as it was sent',
  once: 'an acknowledged upload is stored once',
  whole: 'everything in the store is complete, and nothing else is in it',
  keys: 'a key is one upload for 24 h',
  ready: '/health/ready 200 means that an upload succeeds',
  live: '/health/live answers within 250 ms',
  answers: 'each answer is documented and right',
  identity: 'acknowledged users and roles are listed',
  lock: 'only one process at a time uses DATA_DIR',
  outside: 'nothing is written outside DATA_DIR',
};

const ERRORS = {
  400: [
    'Invalid or missing query parameter.',
    'Invalid request body.',
    'Invalid digest.',
    'Digest mismatch.',
    'Invalid idempotency key.',
    'Invalid user_id or role_id.',
    'Invalid role_name or permissions.',
    'Invalid email or roles.',
    'Invalid user_id or new_name.',
    'Bad request.',
  ],
  403: ['Unauthorized.'],
  404: ['Not found.'],
  408: ['Request timeout.'],
  409: ['Request in progress.'],
  413: ['Payload too large.'],
  415: ['Unsupported media type.'],
  422: ['Idempotency key reused.'],
  429: ['Too many requests.'],
  431: ['Request header fields too large.'],
  500: ['Internal server error.'],
  502: ['Identity provider error.'],
  503: ['Identity provider unavailable.'],
};

/**
 * @typedef {object} Trouble a period of a fault, in which the service may refuse requests
 * @property {string} name the name of the trouble in findings
 * @property {number} from the beginning of the trouble, as a time of `performance.now()`, like `until`
 * @property {number} until Infinity while the trouble lasts. It ends when the service is ready again
 * @property {boolean} [breaks] whether connections may break without an answer
 * @property {boolean} [remains] whether a refused upload may be stored all the same, but only completely, because the
 *   service can't undo it
 * @property {number} [refusesFrom] no upload that begins between this time and `refusesUntil` may be acknowledged
 * @property {number} [refusesUntil]
 * @property {boolean} [stalls] whether answers of `/health/live` may be late
 */

/** @typedef {{ promise: string, sentence: string, moment: string, count: number }} Finding */

/**
 * The promises of the service to its clients, and the violations found.
 *
 * - An upload that was answered with 200 is stored once and completely from then on.
 * - An upload without an answer is stored completely or not at all. An upload that was answered with 500 isn't stored,
 *   unless the disk failed.
 * - An idempotency key stands for one upload while the relevant clock is less than 24 h away from the upload's
 *   `received_at`, before or after. So a clock that jumps and comes back changes nothing. More than 24 h away, a
 *   repeated request may be a new upload. Nothing is required of a key if the clock jumped during its upload, nor of a
 *   repeated request during which the clock jumped and came back.
 * - Without a trouble no valid request is refused. Every error is a documented one.
 */
export class Model {
  /** @type {Finding[]} */
  findings = [];
  moment = '';
  within = '';
  step = '';
  answers = 0;
  /** @type {Trouble[]} */
  #troubles = [];
  #keys = new Map();
  #moments = new Map();
  #time;
  #holdsKeyMs;

  /**
   * @param {{ now: () => number, jumpsSince: (moment: number) => number }} time the clock by which idempotency keys
   *   expire
   * @param {{ holdsKeyMs?: number }} [options] how long an upload whose client has disconnected may hold its key
   */
  constructor(time, { holdsKeyMs = HOLDS_KEY_MS } = {}) {
    this.#time = time;
    this.#holdsKeyMs = holdsKeyMs;
    this.ledger = new Ledger({ mayRefuse: true, mayRepeat: (filename) => this.#keys.get(filename)?.mayRepeat });
  }

  /**
   * Records a finding. Of the findings about one promise in one step, only the first is kept, and the further ones are
   * counted.
   *
   * @param {string} [step] the step in which the finding happened. Default: the current step
   */
  find(promise, sentence, step = this.step) {
    const known = this.findings.find((each) => each.promise === promise && each.step === step);
    if (known) known.count += 1;
    else this.findings.push({ promise, sentence, moment: this.moment, step, count: 1 });
    return known ?? this.findings.at(-1);
  }

  begin(trouble) {
    const begun = { ...trouble, from: performance.now(), until: Infinity };
    this.#troubles.push(begun);
    return begun;
  }

  end(trouble) {
    trouble.until = performance.now();
  }

  troublesSince(moment) {
    return this.#troubles.filter(({ until }) => until >= moment);
  }

  /**
   * Notes that an upload is about to be sent.
   *
   * @returns {object} the attempt to pass to `answered`, `unanswered` or `abandoned`
   */
  attempt(upload, { expected = [200], isOther = false, service } = {}) {
    const key = upload.headers['Idempotency-Key'];
    const entry = key === undefined ? undefined : this.#entryOf(key, upload);
    if (entry) entry.running += 1;
    return { upload, expected, isOther, service, entry, began: performance.now(), wasKept: entry && this.#isKept(entry) };
  }

  hasJumpedSince(moment) {
    return this.#time.jumpsSince(moment) > 0;
  }

  answered(attempt, answer) {
    this.answers += 1;
    this.#ended(attempt);
    const { status, headers, text } = answer;
    if (headers['x-request-id'] === undefined) this.find('answers', `an answer with ${status} has no X-Request-Id`);
    if (status === 200) this.#acknowledged(attempt, headers);
    else {
      if (text !== undefined) this.checkError(status, text);
      if (status === 500) this.#refused(attempt, headers['x-request-id']);
      else if (!attempt.expected.includes(status) && !(status === 422 && attempt.entry?.isUnclear) && !this.#isInProgress(attempt, status) && !this.#isTooLate(attempt, status)) {
        this.find('answers', `${describe(attempt)} was answered with ${status} ${text}`);
      }
    }
  }

  unanswered(attempt, error) {
    this.#ended(attempt);
    if (!this.troublesSince(attempt.began).some(({ breaks }) => breaks)) {
      this.find('answers', `${describe(attempt)} was not answered (${error.code ?? error.message}), and nothing was done to the service`);
    }
  }

  /**
   * Notes that a client has disconnected without waiting for the answer to its upload. The upload must be stored
   * completely or not at all.
   */
  abandoned(attempt) {
    this.#ended(attempt);
  }

  checkError(status, text) {
    const texts = ERRORS[status];
    if (!texts?.some((each) => text === JSON.stringify({ error: each }))) this.find('answers', `an error is not a documented one: ${status} ${text.slice(0, 200)}`);
  }

  held(random, most) {
    const held = [...this.#keys.values()].filter((entry) => entry.uploads.size > 0 && this.#isKept(entry));
    return Array.from({ length: Math.min(most, held.length) }, () => held.splice(random.below(held.length), 1)[0].upload);
  }

  /**
   * Compares the acknowledged uploads with the contents of a data directory or bucket, while no service runs. Records
   * what differs as findings.
   *
   * @returns {Promise<number>} the number of index lines in it.
   */
  async compare(data) {
    const lines = await this.ledger.compare(data);
    const { lost, doubled, halfShown, wrong } = this.ledger;
    for (const sentence of lost) {
      const { step, moment } = this.#moments.get(sentence.split(' ')[0]);
      this.find('acknowledged', `${sentence}; it was acknowledged ${moment}`, step);
    }
    for (const sentence of doubled) this.find('once', sentence);
    for (const sentence of halfShown) this.find('whole', sentence);
    for (const sentence of wrong) this.find('answers', sentence);
    const times = new Map();
    for (const { upload_id: id, kind, customer_id: customer, idempotency_key: key, received_at: at } of lines.values()) {
      if (!key || this.#keys.get(key)?.isUnclear) continue;
      const scope = `${kind} ${customer} ${key}`;
      const other = times.get(scope)?.find((each) => Math.abs(each.at - Date.parse(at)) < DAY_MS - SLACK_MS);
      if (other) this.find('keys', `the key ${key} has two lines within 24 h, ${other.id} and ${id}`);
      times.set(scope, [...(times.get(scope) ?? []), { id, at: Date.parse(at) }]);
    }
    return lines.size;
  }

  #entryOf(key, upload) {
    if (!this.#keys.has(key)) this.#keys.set(key, { upload, uploads: new Map(), running: 0, ended: -Infinity });
    return this.#keys.get(key);
  }

  #isKept({ uploads, isUnclear }) {
    return !isUnclear && [...uploads.values()].some((at) => Math.abs(this.#time.now() - at) < DAY_MS - SLACK_MS);
  }

  #ended({ entry }) {
    if (!entry) return;
    entry.running -= 1;
    entry.ended = performance.now();
  }

  #acknowledged(attempt, headers) {
    const { upload, entry, began, wasKept, isOther } = attempt;
    const id = headers['x-upload-id'];
    const impossible = this.#troubles.find(({ refusesFrom, refusesUntil = Infinity }) => refusesFrom < began && performance.now() < refusesUntil);
    if (impossible) this.find('ready', `${describe(attempt)} was acknowledged while ${impossible.name}`);
    if (entry && !entry.uploads.has(id)) {
      const jumps = this.#time.jumpsSince(began);
      const isHeld = this.#isKept(entry) && (jumps === 0 || (wasKept && jumps === 1));
      if (isHeld && isOther) this.find('keys', `another body was stored as ${id} under the held key ${upload.headers['Idempotency-Key']}`);
      else if (isHeld) {
        this.find('keys', `the key ${upload.headers['Idempotency-Key']} was acknowledged as ${[...entry.uploads.keys()].join(' and ')}, and again as ${id}; the first ${this.#moments.get([...entry.uploads.keys()][0])?.moment}`);
      } else if (entry.uploads.size > 0) entry.mayRepeat = true;
      // Nothing more is required of this idempotency key: the index line of its upload may have the time before or
      // after the jump of the clock, or the key may belong to another body by now.
      if (jumps > 0 || isOther) Object.assign(entry, { isUnclear: true, mayRepeat: true });
      entry.uploads.set(id, this.#time.now());
    }
    if (isOther) return;
    this.ledger.acknowledge(id, upload.sent);
    if (!this.#moments.has(id)) this.#moments.set(id, { step: this.step, moment: this.within });
  }

  #refused(attempt, requestId) {
    const troubles = this.troublesSince(attempt.began);
    if (troubles.length === 0) void this.explain(this.find('answers', `${describe(attempt)} was answered with 500, and nothing was wrong any more`), attempt.service, requestId);
    else if (!troubles.some(({ remains, breaks }) => remains || breaks) && !attempt.entry) this.ledger.refuse(attempt.upload.sent, 500, REFUSAL, attempt.service);
  }

  async explain(finding, service, requestId) {
    await delay(LOG_MS);
    const line = requestId && service?.output.split('\n').find((text) => text.includes(requestId) && text.includes('"err"'));
    if (line) finding.sentence += `: ${line.slice(0, LONGEST_LINE)}`;
  }

  /** Whether a 409 is right: another request holds the idempotency key, or held it until a moment ago. */
  #isInProgress({ entry, began }, status) {
    return status === 409 && entry && (entry.running > 0 || entry.ended - began > -this.#holdsKeyMs);
  }

  #isTooLate({ began }, status) {
    return status === 408 && performance.now() - began > SLOW_MS;
  }
}

const describe = ({ upload: { headers, sent } }) =>
  `${headers['Idempotency-Key'] === undefined ? 'an upload' : 'a keyed upload'} (${sent.filename}, ${sent.size ?? 'no'} bytes)`;
