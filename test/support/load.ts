import { createHash, randomBytes } from 'node:crypto';

/** The number of clients, which is enough to keep two cores busy. */
const WORKERS = 8;
const MAX_FILE_BYTES = 200_000;

export interface Acknowledged {
  readonly uploadId: string;
  readonly customerId: string;
  readonly sha256: string | null;
}

/** Clients that upload JSON, files and forms to a service until it has ended. */
export class Load {
  readonly acknowledged: Acknowledged[] = [];
  private readonly workers: Promise<void>[];
  private onAcknowledged = (): void => undefined;

  constructor(private readonly origin: string, clients = WORKERS) {
    this.workers = Array.from({ length: clients }, (_, worker) => this.work(worker));
  }

  async reached(count: number): Promise<void> {
    const enough = new Promise<void>((resolve) => {
      this.onAcknowledged = () => {
        if (this.acknowledged.length >= count) resolve();
      };
      this.onAcknowledged();
    });
    const ended = this.ended().then(() => {
      throw new Error('The service refuses uploads.');
    });
    await Promise.race([enough, ended]);
  }

  async ended(): Promise<void> {
    await Promise.all(this.workers);
  }

  private async work(first: number): Promise<void> {
    for (let number = first; await this.upload(number).catch(() => false); number++);
  }

  private async upload(number: number): Promise<boolean> {
    const { body, bytes } = [withoutFile, raw, form][number % 3]?.() ?? withoutFile();
    const [base, operation] = number % 2 ? ['Historical', 'historical'] : ['Nowcast', 'nowcast'];
    const customerId = `c${number % 5}`;
    const query = `customer_id=${customerId}&filename=load.csv&manufacturer=m`;
    const url = `${this.origin}/ingest${base}LoadData/upload_${operation}?${query}`;
    const response = await fetch(url, { method: 'POST', body });
    await response.arrayBuffer();
    if (response.status !== 200) return false;
    const sha256 = bytes && createHash('sha256').update(bytes).digest('hex');
    this.acknowledged.push({ uploadId: response.headers.get('x-upload-id') ?? '', customerId, sha256 });
    this.onAcknowledged();
    return true;
  }
}

interface Sent {
  readonly body: Blob | FormData;
  readonly bytes: Buffer | null;
}

const someBytes = (): Buffer => randomBytes(Math.floor(Math.random() * MAX_FILE_BYTES));

const withoutFile = (): Sent => ({ body: new Blob(['{"additional_data":"x"}'], { type: 'application/json' }), bytes: null });

function raw(): Sent {
  const bytes = someBytes();
  return { body: new Blob([bytes], { type: 'text/csv' }), bytes };
}

function form(): Sent {
  const bytes = someBytes();
  const body = new FormData();
  body.append('additional_data', 'x');
  body.append('file', new Blob([bytes]), 'load.csv');
  return { body, bytes };
}
