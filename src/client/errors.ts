/** The service, or a proxy in front of it, refused a request. */
export class LoadDataError extends Error {
  override readonly name = 'LoadDataError';

  /**
   * @param status the HTTP status.
   * @param error the `error` of the answer; empty if the answer isn't the service's.
   * @param requestId the `X-Request-Id`, which is in the service's log too.
   */
  constructor(
    readonly status: number,
    readonly error: string,
    readonly requestId: string | undefined,
  ) {
    super(`${status} ${error}${requestId === undefined ? '' : ` (request ${requestId})`}`);
  }
}

/** The service stored other bytes than those that were sent. */
export class DigestMismatchError extends Error {
  override readonly name = 'DigestMismatchError';

  /** @param uploadId the id of the stored upload. */
  constructor(readonly uploadId: string) {
    super(`The digest of the stored file isn't that of the bytes that were sent: remove the upload ${uploadId} and send it again.`);
  }
}
