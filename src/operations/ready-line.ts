import { resolve } from 'node:path';
import { ownCommand } from '../common/own-command.js';
import { localUrl } from '../configuration/served-address.js';
import type { Environment } from '../configuration/service.js';

/** The line that announces on standard output that the service is ready. */
export function readyLine(environment: Environment, port: number): string {
  const local = localUrl(environment, port);
  const base = environment.publicUrl ?? local;
  const ready = `Ready: ${base} | Swagger UI: ${base}/docs`;
  if (environment.production) return ready;
  const line = `${ready} | token: ${tokenSource(environment)}`;
  return `${line} | try: ${environment.ingestionAuthorization === 'open' ? uploadCommand(local) : `curl -s -w '\\n' '${local}/health/ready'`}`;
}

function tokenSource({ identityProvider, dataDirectory, embeddedAdminSecret }: Environment): string {
  if (identityProvider.adapter !== 'embedded') return 'from the identity provider';
  const secret = embeddedAdminSecret === undefined ? resolve(dataDirectory, 'identity', 'admin-secret') : 'EMBEDDED_ADMIN_SECRET';
  return `${ownCommand('token')} (client admin, secret in ${secret})`;
}

function uploadCommand(base: string): string {
  const query = 'customer_id=acme-energy&filename=load.csv&manufacturer=acme';
  const url = `${base}/ingestHistoricalLoadData/upload_historical?${query}`;
  return `curl -s -w '\\n' -H 'Content-Type: text/csv' --data-binary '2026-01-01T00:00Z,3.31' '${url}'`;
}
