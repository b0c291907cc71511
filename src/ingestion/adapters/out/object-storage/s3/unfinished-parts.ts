import { AbortMultipartUploadCommand, ListMultipartUploadsCommand, type ListMultipartUploadsCommandInput } from '@aws-sdk/client-s3';
import type { S3Connection } from './s3-connection.js';
import { errorNameOf } from './s3-errors.js';

/**
 * Removes the parts of all unfinished multipart uploads to a key. Rejects with errors of the SDK, and StoreSilentError.
 */
export async function removeParts(connection: S3Connection, key: string): Promise<void> {
  const { Bucket, Key: Prefix } = connection.at(key);
  let marker: Pick<ListMultipartUploadsCommandInput, 'KeyMarker' | 'UploadIdMarker'> | undefined = {};
  while (marker) {
    const command: ListMultipartUploadsCommand = new ListMultipartUploadsCommand({
      Bucket,
      // MinIO lists unfinished multipart uploads only if the prefix is a whole key.
      Prefix,
      ...marker,
    });
    const page = await connection.within((options) => connection.client.send(command, options));
    for (const { Key, UploadId } of page.Uploads ?? []) {
      if (Key === Prefix && UploadId) await abortUpload(connection, key, UploadId);
    }
    marker = page.IsTruncated ? { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker } : undefined;
  }
}

/**
 * Removes the parts of one multipart upload, if there are any. Rejects with errors of the SDK, and StoreSilentError.
 */
export async function abortUpload(connection: S3Connection, key: string, UploadId: string): Promise<void> {
  const command = new AbortMultipartUploadCommand({ ...connection.at(key), UploadId });
  try {
    await connection.within((options) => connection.client.send(command, options));
  } catch (error) {
    if (errorNameOf(error) !== 'NoSuchUpload') throw error;
  }
}
