import { encodeWithText, jsonArray, LONG_TEXT } from '../../../../common/text.js';
import type { UploadEvent } from '../../../application/ports/upload-events.port.js';

/**
 * Encodes events as the body of a CloudEvents batch. A long `additional_data` is encoded in pieces, between which other
 * work can run.
 */
export async function encodeBatch(events: readonly UploadEvent[]): Promise<Buffer> {
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
