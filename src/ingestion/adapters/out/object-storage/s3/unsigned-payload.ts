import type { S3Client } from '@aws-sdk/client-s3';

interface Request {
  readonly protocol?: string;
  readonly headers: Record<string, string | undefined>;
}

/** The requests that carry an object, or a part of one. The bodies of others say what the store is to do. */
const CARRY_BYTES: readonly unknown[] = ['PutObjectCommand', 'UploadPartCommand'];

/**
 * Makes a client sign only the CRC32 of the bytes that it sends over TLS, not their sha-256. TLS protects the bytes on
 * the way, and the store compares them with the CRC32. To hash them for the signature would take as much processor time
 * as the sha-256 of the file. The header is that of Signature Version 4
 * (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
 */
export function leavePayloadUnsigned(client: S3Client): void {
  client.middlewareStack.add(
    (next, { commandName }) => (args) => {
      const { protocol, headers } = args.request as Request;
      const isProtected = protocol === 'https:' && headers['x-amz-checksum-crc32'] !== undefined;
      if (isProtected && CARRY_BYTES.includes(commandName)) headers['x-amz-content-sha256'] = 'UNSIGNED-PAYLOAD';
      return next(args);
    },
    // After the middleware that computes the CRC32, and before the step in which the SDK signs.
    { step: 'build', priority: 'low', name: 'unsignedPayload' },
  );
}
