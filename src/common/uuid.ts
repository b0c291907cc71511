import { v7 } from 'uuid';

/**
 * A UUID version 7 (RFC 9562), which sorts by the given time.
 *
 * @param count orders the UUIDs of the same millisecond. Default: a random order.
 */
export const uuidAt = (time: Date, count?: number): string => v7({ msecs: time.getTime(), ...(count !== undefined && { seq: count }) });

/**
 * The time in a version 7 UUID, in milliseconds since 1970 (RFC 9562, 5.7). NaN for a text that doesn't begin like such
 * a UUID.
 */
export const timeOfUuid = (uuid: string): number =>
  /^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(uuid) ? parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16) : Number.NaN;
