import { forEachPiece, LONG_TEXT } from '../../../../common/long-text.js';
import type { UploadEvent } from '../../../application/ports/upload-events.port.js';

/** Events as the body of a CloudEvents batch in UTF-8. Yields to other work if a text is long. */
export async function encodeBatch(events: readonly UploadEvent[]): Promise<Buffer> {
  const parts: string[] = [];
  for (const event of events) {
    const { data } = event;
    const text = 'additional_data' in data ? data.additional_data : null;
    if (text === null || text.length <= LONG_TEXT) parts.push(JSON.stringify(event));
    else parts.push(await encodeLong({ ...event, data: { ...data, additional_data: '' } }, text));
  }
  return Buffer.from(`[${parts.join(',')}]`);
}

/** The member `additional_data` with an empty text. No text in an event can contain this string, because its quotes would be escaped there. */
const EMPTY_TEXT = '"additional_data":""';

/** @param event an event whose `additional_data` is empty. */
async function encodeLong(event: object, text: string): Promise<string> {
  const whole = JSON.stringify(event);
  const textAt = whole.indexOf(EMPTY_TEXT) + EMPTY_TEXT.length - 1;
  const pieces: string[] = [];
  await forEachPiece(text, (piece) => {
    pieces.push(JSON.stringify(piece).slice(1, -1));
  });
  return `${whole.slice(0, textAt)}${pieces.join('')}${whole.slice(textAt)}`;
}
