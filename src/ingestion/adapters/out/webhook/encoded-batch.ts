import { encodeWithText, jsonArray, LONG_TEXT } from '../../../../common/text.js';
import { Turns } from '../../../../common/turns.js';
import type { UploadEvent } from '../../../application/ports/upload-events.port.js';

/** So few events that encoding them holds up other work for a fraction of a millisecond. */
const EVENTS_AT_ONCE = 64;
const COMMA = 0x2c;

/** Encodes events as the body of a CloudEvents batch, in pieces. Other work can run between the pieces. */
export async function encodeBatch(events: readonly UploadEvent[]): Promise<readonly Buffer[]> {
  const pieces: Buffer[] = [];
  const turns = new Turns();
  for (let at = 0; at < events.length; at += EVENTS_AT_ONCE) {
    await turns.next();
    const array = await encodeArray(events.slice(at, at + EVENTS_AT_ONCE));
    if (at > 0) array[0] = COMMA;
    pieces.push(at + EVENTS_AT_ONCE < events.length ? array.subarray(0, -1) : array);
  }
  return pieces;
}

async function encodeArray(events: readonly UploadEvent[]): Promise<Buffer> {
  // One call of `JSON.stringify` for all events takes much less time than one for each event.
  if (events.every((event) => longText(event) === undefined)) return Buffer.from(JSON.stringify(events));
  const items: Buffer[] = [];
  for (const event of events) items.push(await encodeEvent(event));
  return jsonArray(items);
}

function longText({ data }: UploadEvent): string | undefined {
  const text = 'additional_data' in data ? data.additional_data : null;
  return text !== null && text.length > LONG_TEXT ? text : undefined;
}

async function encodeEvent(event: UploadEvent): Promise<Buffer> {
  const text = longText(event);
  if (text === undefined) return Buffer.from(JSON.stringify(event));
  return encodeWithText(JSON.stringify({ ...event, data: { ...event.data, additional_data: '' } }), 'additional_data', text);
}
