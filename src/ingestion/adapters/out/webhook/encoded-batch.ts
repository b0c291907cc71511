import { encodeWithText, jsonArray, LONG_TEXT } from '../../../../common/text.js';
import type { UploadEvent } from '../../../application/ports/upload-events.port.js';

/**
 * Encodes events as the body of a CloudEvents batch: a JSON array in UTF-8. A long `additional_data` is encoded in
 * pieces, between which other work can run.
 */
export async function encodeBatch(events: readonly UploadEvent[]): Promise<Buffer> {
  // If no event has a long text, all events are encoded at once, which takes much less time than one by one.
  if (events.every((event) => longText(event) === undefined)) return Buffer.from(JSON.stringify(events));
  const items: Buffer[] = [];
  for (const event of events) items.push(await encodeEvent(event));
  return jsonArray(items);
}

/** Returns the `additional_data` of an event if it is longer than LONG_TEXT; otherwise undefined. */
function longText({ data }: UploadEvent): string | undefined {
  const text = 'additional_data' in data ? data.additional_data : null;
  return text !== null && text.length > LONG_TEXT ? text : undefined;
}

async function encodeEvent(event: UploadEvent): Promise<Buffer> {
  const text = longText(event);
  if (text === undefined) return Buffer.from(JSON.stringify(event));
  return encodeWithText(JSON.stringify({ ...event, data: { ...event.data, additional_data: '' } }), 'additional_data', text);
}
