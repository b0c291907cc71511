import { inspect } from '../../bench/support/store.mjs';

const MOST_SENT_AGAIN = 20;
const REFUSAL = '{"error":"Internal server error."}';

/**
 * @typedef {object} Sent what must be found of an upload
 * @property {'historical' | 'nowcast'} kind
 * @property {string} filename of one upload only
 * @property {string | null} additionalData
 * @property {number | null} size of its file, in bytes; null without one
 * @property {string | null} sha256 of its file, in hex
 */

/** What clients were told about their uploads to one store, and what was found of them since. */
export class Ledger {
  /** What was acknowledged and wasn't there as it was sent; a sentence each. */
  lost = new Set();
  /** What was there more than once; a sentence each. */
  doubled = new Set();
  /** What was there and shouldn't have been, or only in part; a sentence each. */
  halfShown = new Set();
  /** Answers that no client should get; a sentence each. */
  wrong = new Set();
  #acknowledged = new Map();
  /** By filename, the process that refused it. */
  #refused = new Map();
  #killed = new Set();
  #keyed = [];
  #names = 0;
  #isCut = false;
  /** The names up to here belong to uploads that began before the disk was dead. */
  #lastAlive = Infinity;
  #mayRefuse;
  #refusedMayRemain;
  #mayRepeat;

  /**
   * @param {object} options
   * @param {boolean} [options.mayRefuse] whether an answer 500 is right
   * @param {boolean} [options.refusedMayRemain] whether an upload that was answered with 500 may be there: on a disk
   *   that refuses everything nobody can take it back
   * @param {(filename: string) => boolean | undefined} [mayRepeat] whether several uploads may have a filename, as its
   *   key was over
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

  /** A filename that no other upload has. */
  nextName() {
    this.#names += 1;
    return `${this.#names}.csv`;
  }

  /** @param {string | undefined} id @param {Sent} sent @param {object} [again] what to send once more under its key */
  acknowledge(id, sent, again) {
    if (id === undefined) this.wrong.add('a 200 has no X-Upload-Id');
    else if (Number.parseInt(sent.filename) > this.#lastAlive) this.wrong.add('an upload was acknowledged by a disk without power');
    else if (!this.#isCut) {
      this.#acknowledged.set(id, sent);
      if (again) this.#keyed.push({ id, ...again });
    }
  }

  /** The last uploads that were acknowledged under a key, and forgets all of them. */
  takeKeyed() {
    return this.#keyed.splice(0).slice(-MOST_SENT_AGAIN);
  }

  /**
   * Takes down what is answered until the power is cut, and not what is answered meanwhile: unlike a real cut, shutting
   * a file system down takes milliseconds, and a flush that runs at the same time may be told done when it isn't (so
   * says a bare loop of fdatasync, with Linux 6.18). No upload that begins afterwards may be acknowledged.
   */
  async duringCut(cut) {
    this.#isCut = true;
    await cut();
    this.#lastAlive = this.#names;
  }

  /** The disk runs again. */
  powerIsBack() {
    this.#isCut = false;
    this.#lastAlive = Infinity;
  }

  /** @param {Sent} sent @param {object} service that said so */
  refuse({ filename }, status, text, service) {
    this.#refused.set(filename, service);
    if (!this.#mayRefuse || status !== 500 || text !== REFUSAL) this.wrong.add(`an upload was answered with ${status} ${text}`);
  }

  /** A process is killed that may not have taken back yet what it refused, as the store was gone: that may remain. */
  mayLeaveRefused(service) {
    this.#killed.add(service);
  }

  /** Compares with what a data directory shows after a boot. @returns {Promise<Map<string, object>>} its lines by upload id */
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
      if (!line) this.lost.add(`${id} is lost`);
      else if (!isAsSent(line, sent)) this.lost.add(`${id} is not as it was sent`);
    }
    for (const { upload_id: id, filename } of this.#refusedMayRemain ? [] : lines.values()) {
      if (this.#refused.has(filename) && !this.#killed.has(this.#refused.get(filename))) this.halfShown.add(`${id} was refused and is shown`);
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
