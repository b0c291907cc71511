import { DAY_MS } from '../../common/durations.js';
import { encodeWithText, jsonArray, LONG_TEXT, parseJson } from '../../common/text.js';
import { encodePathSegment, type Upload, UPLOAD_KINDS, type UploadKind } from './upload.js';

/** The last extension of a file name, in lower case, with its dot; empty unless it is 1-8 ASCII letters or digits. */
export const extensionOf = (filename: string): string => /\.[A-Za-z0-9]{1,8}$/.exec(filename)?.[0].toLowerCase() ?? '';

/** The day of the latest call of `utcDate`, kept because most calls are for the same day. */
let latestDay = { number: Number.NaN, date: '' };

/**
 * The UTC day of a time, as `YYYY-MM-DD`.
 *
 * @throws RangeError for an invalid time.
 */
export function utcDate(time: Date): string {
  const number = Math.floor(time.getTime() / DAY_MS);
  if (number !== latestDay.number) latestDay = { number, date: time.toISOString().slice(0, 10) };
  return latestDay.date;
}

/** The directory with the index lines of one kind of upload, relative to the store's root. */
export const linesDirectory = (kind: UploadKind): string => `uploads/kind=${kind}`;

/** The directory with the files of one kind of upload, relative to the store's root. */
export const contentDirectory = (kind: UploadKind): string => `files/kind=${kind}`;

/** The directory with the files of one kind of upload of one customer, relative to the store's root. */
export const customerDirectory = (kind: UploadKind, customerId: string): string =>
  `${contentDirectory(kind)}/customer_id=${encodePathSegment(customerId)}`;

/** The path of an uploaded file, relative to the store's root. */
export function contentPath(file: {
  kind: UploadKind;
  customerId: string;
  filename: string;
  uploadId: string;
  beganAt: Date;
}): string {
  const name = `${file.uploadId}${extensionOf(file.filename)}`;
  return `${customerDirectory(file.kind, file.customerId)}/date=${utcDate(file.beganAt)}/${name}`;
}

/** The directory of the segments (files of index lines) of one kind and UTC day, relative to the store's root. */
export const dayDirectory = (kind: UploadKind, day: string): string => `${linesDirectory(kind)}/date=${day}`;

/** The `dayDirectory` for an upload that was received at a time. */
export const segmentDirectory = (kind: UploadKind, receivedAt: Date): string => dayDirectory(kind, utcDate(receivedAt));

/**
 * The kind of the uploads in a segment, from its path relative to the store's root; `historical` for any other path.
 */
export const kindOf = (segment: string): UploadKind => UPLOAD_KINDS.find((kind) => segment.startsWith(`${linesDirectory(kind)}/`)) ?? 'historical';

/** The latest result of `timeText`, because many uploads may be received in the same millisecond. */
let latestTime = { milliseconds: Number.NaN, text: '' };

/** Like `toISOString`, which alone took half of the time of an index line. */
function timeText(time: Date): string {
  const milliseconds = time.getTime();
  if (milliseconds !== latestTime.milliseconds) latestTime = { milliseconds, text: time.toISOString() };
  return latestTime.text;
}

const NO_CONTENT = '"content_path":null,"content_type":null,"content_size":null,"content_sha256":null';

/** The index line of an upload as JSON text, without a newline at its end. */
export function indexLine(upload: Upload): string {
  const { uploadId, kind, customerId, filename, manufacturer, additionalData, receivedAt, content, idempotencyKey } = upload;
  // The members are encoded one by one: one call of `JSON.stringify` for all of them would take twice as long.
  const parameters = `"customer_id":${JSON.stringify(customerId)},"filename":${JSON.stringify(filename)},"manufacturer":${JSON.stringify(manufacturer)}`;
  const file = content
    ? `"content_path":${JSON.stringify(content.path)},"content_type":${JSON.stringify(content.type)},"content_size":${content.size},"content_sha256":"${content.sha256}"`
    : NO_CONTENT;
  const key = idempotencyKey ? `,"idempotency_key":${JSON.stringify(idempotencyKey)}` : '';
  return `{"upload_id":"${uploadId}","kind":"${kind}",${parameters},"additional_data":${JSON.stringify(additionalData)},"received_at":"${timeText(receivedAt)}",${file}${key}}`;
}

/** An upload as clients see it: the members of its index line, except for `content_path` and `idempotency_key`. */
export const describedUpload = (upload: Upload) => ({
  upload_id: upload.uploadId,
  kind: upload.kind,
  customer_id: upload.customerId,
  filename: upload.filename,
  manufacturer: upload.manufacturer,
  additional_data: upload.additionalData,
  received_at: upload.receivedAt.toISOString(),
  content_type: upload.content?.type ?? null,
  content_size: upload.content?.size ?? null,
  content_sha256: upload.content?.sha256 ?? null,
});

/** The bytes of an upload's index line with its newline. Yields to other work if `additional_data` is long. */
export const encodeIndexLine = (upload: Upload): Buffer | Promise<Buffer> =>
  hasLongText(upload) ? encodeLong(upload, lineWithNewline) : Buffer.from(lineWithNewline(upload));

/** The bytes of `describedUpload` as JSON. Yields to other work if `additional_data` is long. */
export const encodeDescription = (upload: Upload): Buffer | Promise<Buffer> =>
  hasLongText(upload) ? encodeLong(upload, description) : Buffer.from(description(upload));

/** A JSON array of `describedUpload`s. Yields to other work if an `additional_data` is long. */
export async function encodeDescriptions(uploads: readonly Upload[]): Promise<Buffer> {
  // Encoding all uploads in one call takes half as long as encoding them one by one.
  if (!uploads.some(hasLongText)) return Buffer.from(JSON.stringify(uploads.map(describedUpload)));
  const items: Buffer[] = [];
  for (const upload of uploads) items.push(await encodeDescription(upload));
  return jsonArray(items);
}

const lineWithNewline = (upload: Upload): string => `${indexLine(upload)}\n`;

const description = (upload: Upload): string => JSON.stringify(describedUpload(upload));

/** Whether the `additional_data` is so long that it is processed in pieces, between which other work can run. */
export const hasLongText = ({ additionalData }: Upload): boolean => (additionalData?.length ?? 0) > LONG_TEXT;

const encodeLong = (upload: Upload, write: (upload: Upload) => string): Promise<Buffer> =>
  encodeWithText(write({ ...upload, additionalData: '' }), 'additional_data', upload.additionalData ?? '');

/**
 * The upload that an index line describes; undefined unless the line is a JSON object with texts as its `upload_id` and
 * `received_at`. Without a text as its `content_path`, the upload has no file. Nothing else is checked.
 */
export function parseIndexLine(line: string): Upload | undefined {
  return uploadFrom(parseJson(line));
}

/** The upload that the JSON value of an index line describes, as `parseIndexLine` returns it. */
export function uploadFrom(line: unknown): Upload | undefined {
  const parsed = line as Record<string, string | number | null | undefined> | null | undefined;
  if (!parsed || typeof parsed.upload_id !== 'string' || typeof parsed.received_at !== 'string') return undefined;
  return {
    uploadId: parsed.upload_id,
    kind: parsed.kind,
    customerId: parsed.customer_id,
    filename: parsed.filename,
    manufacturer: parsed.manufacturer,
    idempotencyKey: parsed.idempotency_key ?? null,
    additionalData: parsed.additional_data,
    receivedAt: new Date(parsed.received_at),
    content:
      typeof parsed.content_path === 'string'
        ? { path: parsed.content_path, type: parsed.content_type, size: parsed.content_size, sha256: parsed.content_sha256 }
        : null,
  } as Upload;
}
