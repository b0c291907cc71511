import { inspect } from '../../bench/support/store.mjs';

const MOST_SENT_AGAIN = 20;
const REFUSAL = '{"error":"Internal server error."}';

/**
 * @typedef {object} Sent the expected contents of an upload
 * @property {'historical' | 'nowcast'} kind
 * @property {string} filename unique to the upload
 * @property {string} customerId
 * @property {string | null} additionalData
 * @property {number | null} size the size of the upload's file, in bytes; null for an upload without a file
 * @property {string | null} sha256 the digest of the upload's file, in hex; null for an upload without a file
 */

/** Records the answers to all uploads to one store, and the violations found in these answers and in the store. */
export class Ledger {
  /** Acknowledged uploads that are missing or differ from what was sent. One sentence each. */
  lost = new Set();
  doubled = new Set();
  /** Stored data that is incomplete or should not exist. One sentence each. */
  halfShown = new Set();
  /** Answers that no client should get. One sentence each. */
  wrong = new Set();
  #acknowledged = new Map();
  #refused = new Map();
  #killed = new Set();
  #removing = new Set();
  #removed = new Set();
  /** By customer, the number in the filename of the last upload that a removal of all uploads may have removed. */
  #erasedUntil = new Map();
  #removable = [];
  #keyed = [];
  #names = 0;
  #isCut = false;
  /** The number in the filename of the last upload that began before the power was off; Infinity while it is on. */
  #lastAlive = Infinity;
  #mayRefuse;
  #refusedMayRemain;
  #mayRepeat;

  /**
   * @param {object} options
   * @param {boolean} [options.mayRefuse] whether a 500 is a valid answer
   * @param {boolean} [options.refusedMayRemain] whether an upload that was answered with 500 may be stored: on a disk
   *   that fails every operation, the service can't undo it
   * @param {(filename: string) => boolean | undefined} [options.mayRepeat] whether several stored uploads may have this
   *   filename, because the idempotency key of the first had expired
   */
  constructor({ mayRefuse = false, refusedMayRemain = false, mayRepeat = () => false } = {}) {
    this.#mayRefuse = mayRefuse;
    this.#refusedMayRemain = refusedMayRemain;
    this.#mayRepeat = mayRepeat;
  }

  get acknowledged() {
    return this.#acknowledged.size;
  }

  get refused() {
    return this.#refused.size;
  }

  get removed() {
    return this.#removed.size;
  }

  get acknowledgedIds() {
    return [...this.#acknowledged.keys()];
  }

  get removedIds() {
    return [...this.#removed];
  }

  nextName() {
    this.#names += 1;
    return `${this.#names}.csv`;
  }

  /**
   * Records that an upload was answered with 200.
   *
   * @param {string | undefined} id the upload id in the answer
   * @param {Sent} sent what was sent
   * @param {object} [again] the request to repeat later, if it has an idempotency key
   */
  acknowledge(id, sent, again) {
    if (id === undefined) this.wrong.add('a 200 has no X-Upload-Id');
    else if (Number.parseInt(sent.filename) > this.#lastAlive) this.wrong.add('an upload was acknowledged by a disk without power');
    else if (!this.#isCut) {
      this.#acknowledged.set(id, sent);
      this.#removable.push(id);
      if (this.mayBeErased(id)) this.#removing.add(id);
      if (again) this.#keyed.push({ id, ...again });
    }
  }

  mayBeErased(id) {
    const { customerId, filename } = this.#acknowledged.get(id);
    return Number.parseInt(filename) <= (this.#erasedUntil.get(customerId) ?? 0);
  }

  takeRemovable() {
    for (let id = this.#removable.shift(); id !== undefined; id = this.#removable.shift()) if (!this.#removing.has(id)) return id;
    return undefined;
  }

  /**
   * Notes the removal of an upload. `remove` resolves to whether the removal was answered as done. If not, the upload
   * may be stored or not.
   */
  async duringRemoval(id, remove) {
    this.#removing.add(id);
    if (await remove()) this.#removed.add(id);
  }

  /**
   * Notes the removal of all uploads of a customer. `remove` resolves to whether the removal was answered as done. An
   * upload that begins before this answer may be removed too.
   */
  async duringErasure(customerId, remove) {
    const ids = [...this.#acknowledged].filter(([, sent]) => sent.customerId === customerId).map(([id]) => id);
    for (const id of ids) this.#removing.add(id);
    this.#erasedUntil.set(customerId, Infinity);
    try {
      if (await remove()) for (const id of ids) this.#removed.add(id);
    } finally {
      this.#erasedUntil.set(customerId, this.#names);
    }
  }

  /** Returns at most 20 of the latest acknowledged uploads with a key. The next call returns only later ones. */
  takeKeyed() {
    return this.#keyed.splice(0).filter(({ id }) => !this.#removing.has(id)).slice(-MOST_SENT_AGAIN);
  }

  /**
   * Notes a power cut. Unlike a real one, shutting a file system down takes milliseconds, and a flush at the same time
   * may report success although it failed (as a bare loop of fdatasync shows with Linux 6.18). So uploads during the
   * cut may be acknowledged, but none that begins after it.
   */
  async duringCut(cut) {
    this.#isCut = true;
    await cut();
    this.#lastAlive = this.#names;
  }

  powerIsBack() {
    this.#isCut = false;
    this.#lastAlive = Infinity;
  }

  refuse({ filename }, status, text, service) {
    this.#refused.set(filename, service);
    if (!this.#mayRefuse || status !== 500 || text !== REFUSAL) this.wrong.add(`an upload was answered with ${status} ${text}`);
  }

  /**
   * Notes that a service process was killed, maybe before it could undo uploads that it refused while the store was
   * down. The uploads that it refused may therefore be stored.
   */
  mayLeaveRefused(service) {
    this.#killed.add(service);
  }

  /**
   * Compares the recorded uploads with the contents of a data directory after a boot, or with those of a bucket.
   *
   * @returns {Promise<Map<string, object>>} the index lines in it, by upload id
   */
  async compare(data) {
    const { lines, doubled, halves } = await inspect(data);
    for (const finding of doubled) this.doubled.add(finding);
    for (const finding of halves) this.halfShown.add(finding);
    const names = new Set();
    for (const { upload_id: id, filename } of lines.values()) {
      if (names.has(filename) && !this.#mayRepeat(filename)) this.doubled.add(`${id} is another upload of ${filename}`);
      names.add(filename);
    }
    for (const [id, sent] of this.#acknowledged) {
      const line = lines.get(id);
      if (line && this.#removed.has(id)) this.wrong.add(`${id} was removed and is back`);
      else if (!line && this.#removing.has(id)) continue;
      else if (!line) this.lost.add(`${id} is lost`);
      else if (!isAsSent(line, sent)) this.lost.add(`${id} differs from what was sent`);
    }
    for (const { upload_id: id, filename } of this.#refusedMayRemain ? [] : lines.values()) {
      if (this.#refused.has(filename) && !this.#killed.has(this.#refused.get(filename))) this.halfShown.add(`${id} was refused but is stored`);
    }
    return lines;
  }
}

const isAsSent = (line, { kind, filename, additionalData, size, sha256 }) =>
  line.kind === kind &&
  line.filename === filename &&
  line.additional_data === additionalData &&
  line.content_size === size &&
  line.content_sha256 === sha256;
