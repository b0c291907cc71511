import { hash } from 'node:crypto';

const WORDS = 4;
const EMPTY = 0;
const PRESENT = 1;
const REMOVED = 2;

/** The sha-256 of a text. A `DigestSet` contains such digests in place of the texts. */
export const digestOf = (text: string): Buffer => hash('sha256', text, 'buffer');

/**
 * The part, from 0, that a digest belongs to, if all digests are divided into `parts` parts of about equal size. Uses
 * other bits of the digest than those that a `DigestSet` compares.
 */
export const partOf = (digest: Buffer, parts: number): number => digest.readUInt32LE(WORDS * 4) % parts;

/** A short text with the 128 bits of a digest that a `DigestSet` compares, for example as the key of a Map. */
export const nameOf = (digest: Buffer): string => digest.toString('latin1', 0, WORDS * 4);

/** The store grew too much while it was verified: its digests don't fit into a `DigestSet`. */
export class DigestSetFullError extends Error {
  constructor() {
    super('The store grew too much during the check; run it again.');
    this.name = new.target.name;
  }
}

/**
 * A set of digests in a table of fixed size. Each place takes 17 bytes. Only the first 128 bits of a digest are
 * compared.
 */
export class DigestSet {
  private readonly words: Uint32Array;
  private readonly states: Uint8Array;
  private readonly mask: number;
  private used = 0;
  private present = 0;

  /** @param places a power of two. One tenth of the places always stays free. */
  constructor(places: number) {
    this.words = new Uint32Array(places * WORDS);
    this.states = new Uint8Array(places);
    this.mask = places - 1;
  }

  get size(): number {
    return this.present;
  }

  /**
   * Adds a digest. Returns false if the digest was already in the set.
   *
   * @throws DigestSetFullError if nine tenths of the places are taken. A deleted digest keeps its place until `clear`.
   */
  add(digest: Buffer): boolean {
    const place = this.find(digest);
    if (this.states[place] === PRESENT) return false;
    if (this.states[place] === EMPTY) {
      if (this.used >= this.states.length * 0.9) throw new DigestSetFullError();
      this.used += 1;
      for (let word = 0; word < WORDS; word++) this.words[place * WORDS + word] = digest.readUInt32LE(word * 4);
    }
    this.states[place] = PRESENT;
    this.present += 1;
    return true;
  }

  has(digest: Buffer): boolean {
    return this.states[this.find(digest)] === PRESENT;
  }

  delete(digest: Buffer): void {
    const place = this.find(digest);
    if (this.states[place] !== PRESENT) return;
    this.states[place] = REMOVED;
    this.present -= 1;
  }

  clear(): void {
    this.states.fill(EMPTY);
    this.used = 0;
    this.present = 0;
  }

  /** The place of a digest, even of a deleted one, or the free place to add it at. */
  private find(digest: Buffer): number {
    for (let place = digest.readUInt32LE(0) & this.mask; ; place = (place + 1) & this.mask) {
      if (this.states[place] === EMPTY || this.holds(place, digest)) return place;
    }
  }

  private holds(place: number, digest: Buffer): boolean {
    for (let word = 0; word < WORDS; word++) {
      if (this.words[place * WORDS + word] !== digest.readUInt32LE(word * 4)) return false;
    }
    return true;
  }
}
