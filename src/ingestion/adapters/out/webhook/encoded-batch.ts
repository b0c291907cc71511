import { forEachPiece, jsonArray, LONG_TEXT } from '../../../../common/text.js';
import type { UploadEvent } from '../../../application/ports/upload-events.port.js';

/**
 * Encodes events as the body of a CloudEvents batch: a JSON array in UTF-8. A long `additional_data` is encoded in
 * pieces, between which other work can run.
 */
export async function encodeBatch(events: readonly UploadEvent[]): Promise<Buffer> {
  // If no event has a long text, all events are encoded at once, which takes much less time than one by one.
  if (events.every((event) => longText(event) === undefined)) return Buffer.from(JSON.stringify(events));
  const items: Buffer[][] = [];
  for (const event of events) {
    const text = longText(event);
    items.push(text === undefined ? [Buffer.from(JSON.stringify(event))] : await encodeLong({ ...event, data: { ...event.data, additional_data: '' } }, text));
  }
  return jsonArray(items);
}

/** The `additional_data` of an event if it is long. */
function longText({ data }: UploadEvent): string | undefined {
  const text = 'additional_data' in data ? data.additional_data : null;
  return text !== null && text.length > LONG_TEXT ? text : undefined;
}

/**
 * The JSON member `additional_data` with an empty text. `encodeLong` finds it in the JSON of an event, and inserts the
 * long text between its quotes. No text in an event contains this string, because JSON escapes the quotes in texts.
 */
const EMPTY_TEXT = '"additional_data":""';

/**
 * Encodes one event as JSON in UTF-8, in pieces, so that other work can run in between.
 *
 * @param event the event, with an empty text as its `additional_data`.
 * @param text the long `additional_data` of the event.
 */
async function encodeLong(event: object, text: string): Promise<Buffer[]> {
  const whole = JSON.stringify(event);
  const textAt = whole.indexOf(EMPTY_TEXT) + EMPTY_TEXT.length - 1;
  const parts = [Buffer.from(whole.slice(0, textAt))];
  await forEachPiece(text, (piece) => {
    parts.push(Buffer.from(JSON.stringify(piece).slice(1, -1)));
  });
  return [...parts, Buffer.from(whole.slice(textAt))];
}
