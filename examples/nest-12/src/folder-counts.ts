import { contentsOf } from './folder-storage.js';
import { UploadCounts } from './reports.module.js';

/** Counts the lines in the folder of a `FolderStorage`. */
export class FolderCounts extends UploadCounts {
  constructor(private readonly folder: string) {
    super();
  }

  override async byCustomer(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const line of (await contentsOf(this.folder)).lines) {
      const { customer_id: customer } = line as { customer_id: string };
      counts[customer] = (counts[customer] ?? 0) + 1;
    }
    return counts;
  }
}
