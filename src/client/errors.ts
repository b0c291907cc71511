/**
 * The service, or a proxy in front of it, refused a request. Also thrown if the answer to an upload, or to the removal
 * of one upload, has a success status but isn't the service's.
 */
export class LoadDataError extends Error {
  override readonly name = 'LoadDataError';

  /**
   * @param error the member `error` of the answer; empty if the answer has none, for example because a proxy answered.
   * @param requestId the `X-Request-Id` of the answer, which is in the service's log too.
   */
  constructor(
    readonly status: number,
    readonly error: string,
    readonly requestId: string | undefined,
  ) {
    super(`${status} ${error}${requestId === undefined ? '' : ` (request ${requestId})`}`);
  }
}

/** The file that the service stored doesn't have the sha-256 of the bytes that the client sent. */
export class DigestMismatchError extends Error {
  override readonly name = 'DigestMismatchError';

  constructor(readonly uploadId: string) {
    super(`The digest of the stored file isn't that of the bytes that were sent: remove the upload ${uploadId} and send it again.`);
  }
}
