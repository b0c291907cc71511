import { type Day, dayOf } from '../segment-names.js';
import type { Remnant } from './removal-marker.js';

export interface MarkedSegment {
  readonly key: string;
  readonly day: Day;
  readonly ids: ReadonlySet<string>;
}

/** The segments that the marker of a removal names, each once, with the ids of its removed uploads; grouped by days. */
export function markedSegments(remnants: readonly Remnant[]): (readonly MarkedSegment[])[] {
  const segments = new Map<string, Set<string>>();
  for (const { upload_id: uploadId, segment } of remnants) {
    if (segment !== undefined) segments.set(segment, (segments.get(segment) ?? new Set()).add(uploadId));
  }
  const days = new Map<string, MarkedSegment[]>();
  for (const [key, ids] of segments) {
    const day = dayOf(key);
    if (!day) continue;
    const name = `${day.kind} ${day.date}`;
    days.set(name, [...(days.get(name) ?? []), { key, day, ids }]);
  }
  return [...days.values()];
}
