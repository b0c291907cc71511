import { forEachPiece, LONG_TEXT } from '../../../../common/text.js';
import type { UploadEvent } from '../../../application/ports/upload-events.port.js';

const [BEGIN, COMMA, END] = ['[', ',', ']'].map((text) => Buffer.from(text)) as [Buffer, Buffer, Buffer];

/** Events as the body of a CloudEvents batch in UTF-8. Yields to other work if a text is long. */
export async function encodeBatch(events: readonly UploadEvent[]): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (const event of events) {
    parts.push(parts.length === 0 ? BEGIN : COMMA);
    const { data } = event;
    const text = 'additional_data' in data ? data.additional_data : null;
    if (text === null || text.length <= LONG_TEXT) parts.push(Buffer.from(JSON.stringify(event)));
    else parts.push(...(await encodeLong({ ...event, data: { ...data, additional_data: '' } }, text)));
  }
  return Buffer.concat([...parts, END]);
}

/** The member `additional_data` with an empty text. No text in an event can contain this string, because its quotes would be escaped there. */
const EMPTY_TEXT = '"additional_data":""';

/** @param event an event whose `additional_data` is empty. */
async function encodeLong(event: object, text: string): Promise<Buffer[]> {
  const whole = JSON.stringify(event);
  const textAt = whole.indexOf(EMPTY_TEXT) + EMPTY_TEXT.length - 1;
  const parts = [Buffer.from(whole.slice(0, textAt))];
  await forEachPiece(text, (piece) => {
    parts.push(Buffer.from(JSON.stringify(piece).slice(1, -1)));
  });
  return [...parts, Buffer.from(whole.slice(textAt))];
}
