import { progressBar } from '../common/progress-bar.js';
import { count } from '../common/report-text.js';
import type { RemovalProgress } from '../ingestion/application/ports/stored-uploads.port.js';

/** Formats the progress of a removal as one line of text. */
export const removalProgress = ({ segments, allSegments, uploads }: RemovalProgress): string =>
  `${progressBar(allSegments === 0 ? 0 : segments / allSegments)} ${count(uploads, 'upload')}`;
