import { setImmediate as turn } from 'node:timers/promises';
import { encodeWithText, LONG_TEXT } from '../../../../common/text.js';
import type { UploadEvent } from '../../../application/ports/upload-events.port.js';

/** So few events that encoding them holds up other work for a fraction of a millisecond. */
const EVENTS_AT_ONCE = 64;
const [COMMA, END] = [',', ']'].map((text) => Buffer.from(text)) as [Buffer, Buffer];

/** Encodes events as the body of a CloudEvents batch, in pieces. Other work can run between the pieces. */
export async function encodeBatch(events: readonly UploadEvent[]): Promise<readonly Buffer[]> {
  const pieces: Buffer[] = [Buffer.from('[')];
  for (let at = 0; at < events.length; at += EVENTS_AT_ONCE) {
    await turn();
    const some = events.slice(at, at + EVENTS_AT_ONCE);
    if (at > 0) pieces.push(COMMA);
    // One call of `JSON.stringify` for these events takes much less time than one for each event.
    if (some.every((event) => longText(event) === undefined)) pieces.push(Buffer.from(JSON.stringify(some).slice(1, -1)));
    else for (const [index, event] of some.entries()) pieces.push(...(index > 0 ? [COMMA] : []), await encodeEvent(event));
  }
  return [...pieces, END];
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
