import { encodePathSegment, type Upload, type UploadKind } from './upload.js';

/**
 * The last extension of the client's file name, in lower case, with its dot. An empty text if the name doesn't end with
 * a dot and 1-8 ASCII letters or digits.
 */
export const extensionOf = (filename: string): string => /\.[A-Za-z0-9]{1,8}$/.exec(filename)?.[0].toLowerCase() ?? '';

/** The UTC day of a time, as `YYYY-MM-DD`. */
export const utcDate = (time: Date): string => time.toISOString().slice(0, 10);

/** The directory with the index lines of one kind of upload, relative to the store's root. */
export const linesDirectory = (kind: UploadKind): string => `uploads/kind=${kind}`;

/** The directory with the files of one kind of upload, relative to the store's root. */
export const contentDirectory = (kind: UploadKind): string => `files/kind=${kind}`;

/** The path of an uploaded file, relative to the store's root. */
export function contentPath(file: {
  kind: UploadKind;
  customerId: string;
  filename: string;
  uploadId: string;
  /** When the upload began. */
  beganAt: Date;
}): string {
  const customer = encodePathSegment(file.customerId);
  const name = `${file.uploadId}${extensionOf(file.filename)}`;
  return `${contentDirectory(file.kind)}/customer_id=${customer}/date=${utcDate(file.beganAt)}/${name}`;
}

/**
 * The directory of the segments (files of index lines) for uploads of one kind that were received on one UTC day,
 * relative to the store's root.
 */
export const segmentDirectory = (kind: UploadKind, receivedAt: Date): string =>
  `${linesDirectory(kind)}/date=${utcDate(receivedAt)}`;

/** The index line of an upload as JSON text, without a newline at its end. */
export const indexLine = (upload: Upload): string =>
  // The members are written out one by one, because spreading objects would take most of this function's time.
  JSON.stringify({
    upload_id: upload.uploadId,
    kind: upload.kind,
    customer_id: upload.customerId,
    filename: upload.filename,
    manufacturer: upload.manufacturer,
    additional_data: upload.additionalData,
    received_at: upload.receivedAt.toISOString(),
    content_path: upload.content?.path ?? null,
    content_type: upload.content?.type ?? null,
    content_size: upload.content?.size ?? null,
    content_sha256: upload.content?.sha256 ?? null,
    idempotency_key: upload.idempotencyKey ?? undefined,
  });

/**
 * An upload as clients see it: the members of its index line, except for the path of its file and its idempotency key.
 */
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

/** `describedUpload` as JSON. */
export const uploadDescription = (upload: Upload): string => JSON.stringify(describedUpload(upload));

/**
 * The upload that an index line describes. Undefined if the line isn't JSON, or its `upload_id` or `received_at` isn't
 * a text. The other members, and the values of these two, aren't checked.
 */
export function parseIndexLine(line: string): Upload | undefined {
  let parsed: Record<string, string | number | null | undefined> | null;
  try {
    parsed = JSON.parse(line) as typeof parsed;
  } catch {
    return undefined;
  }
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
