import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { z } from 'zod';
import { ManagementError } from './management-error.js';
import { readBody, type Route } from './route.js';
import { newId, type Tenant } from './tenant.js';
import { type UserRecord, userView } from './user-record.js';

interface ExportJob {
  readonly id: string;
  readonly createdAt: number;
  readonly fields: readonly { readonly name: string; readonly export_as?: string | undefined }[];
  readonly users: readonly UserRecord[];
  reads: number;
}

const NEW_EXPORT = z.strictObject({
  connection_id: z.string().regex(/^con_[A-Za-z0-9]{16}$/).optional(),
  format: z.enum(['json', 'csv']).optional(),
  limit: z.int().min(1).optional(),
  fields: z.array(z.strictObject({ name: z.string().max(100), export_as: z.string().max(100).optional() })).optional(),
});

const LINK_MS = 60_000;
const JOB_MS = 24 * 3_600_000;

/** The user export jobs of a simulated Auth0 tenant. An exported file is downloaded from a URL with a signature. */
export class ExportJobs {
  private readonly jobs = new Map<string, ExportJob>();
  private readonly links = new Map<string, { readonly jobId: string; readonly until: number }>();

  constructor(private readonly tenant: Tenant) {}

  routes(): Route[] {
    return [
      { operation: 'POST /jobs/users-exports', scopes: ['read:users'], answer: ({ body }) => ({ status: 200, body: this.begin(body) }) },
      {
        operation: 'GET /jobs/{id}',
        scopes: ['create:users', 'read:users'],
        anyScope: true,
        answer: ({ id }) => ({ status: 200, body: this.look(id) }),
      },
    ];
  }

  /**
   * Returns an exported file: gzipped, with one user per line as JSON. Undefined if the URL is unknown or has expired.
   *
   * @param path the path and query of the file's URL.
   */
  file(path: string): Buffer | undefined {
    const link = this.links.get(path);
    const job = link && link.until > this.tenant.now() ? this.jobs.get(link.jobId) : undefined;
    return job && gzipSync(job.users.map((user) => `${JSON.stringify(exported(user, job.fields))}\n`).join(''));
  }

  private begin(body: unknown): object {
    const { format, fields = [], limit } = readBody(NEW_EXPORT, body);
    if (format === 'csv') throw new ManagementError(400, 'This stand-in exports JSON only.', 'operation_not_supported');
    const { users, now } = this.tenant;
    users.index.catchUp(now());
    const all = users.index.all();
    const job = { id: newId('job_'), createdAt: now(), fields, users: limit === undefined ? all : all.slice(0, limit), reads: 0 };
    this.jobs.set(job.id, job);
    return { ...this.view(job, 'pending'), fields, ...(limit !== undefined && { limit }) };
  }

  private look(id: string): object {
    const { settings, now, domain } = this.tenant;
    const job = this.jobs.get(id);
    if (!job || job.createdAt + JOB_MS <= now()) throw new ManagementError(404, 'The job does not exist', 'inexistent_job');
    if (job.reads++ < settings.exportReads) return { ...this.view(job, 'processing'), percentage_done: 50, time_left_seconds: 1 };
    if (settings.exportEnd === 'failed') return this.view(job, 'failed');
    const path = `/exports/${id}.json.gz?signature=${randomBytes(16).toString('hex')}`;
    this.links.set(path, { jobId: id, until: now() + LINK_MS });
    return { ...this.view(job, 'completed'), percentage_done: 100, location: domain + path };
  }

  private view({ id, createdAt }: ExportJob, status: string): object {
    return { type: 'users_export', status, connection: this.tenant.connections[0]?.name ?? '', format: 'json', created_at: new Date(createdAt).toISOString(), id };
  }
}

function exported(user: UserRecord, fields: ExportJob['fields']): Record<string, unknown> {
  const view = userView(user);
  if (fields.length === 0) return view;
  return Object.fromEntries(fields.map(({ name, export_as: as = name }) => [as, view[name]]));
}
