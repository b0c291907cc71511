import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { programPath } from '../servers/proxies.mjs';
import { freePort, Server } from '../servers/server.mjs';

const CONFIGURATION = 'deploy/nginx/load-data-service.conf';

export const missingNginx = () => (programPath('nginx') ? undefined : 'nginx is not installed');

/**
 * Starts nginx with the configuration of `deploy/`, but without TLS, in front of replicas on this machine.
 *
 * @param {readonly number[]} replicas the ports of the replicas
 * @returns {Promise<Server>}
 */
export async function startNginx(replicas) {
  const port = await freePort();
  const server = new Server('nginx', port);
  const at = (name) => join(server.directory, name);
  const servers = replicas.map((replica) => `server 127.0.0.1:${replica} max_fails=0;`).join(' ');
  const changes = [
    [/server 10\.0\.0\.11:3000 max_fails=0;\s+server 10\.0\.0\.12:3000 max_fails=0;/, servers],
    ['listen 443 ssl http2;', `listen 127.0.0.1:${port};`],
    ['listen [::]:443 ssl http2;', ''],
    [/ssl_\w+ .*;\n/g, '\n'],
    ['/var/log/nginx/load-data-service.log', at('log')],
  ];
  let text = await readFile(CONFIGURATION, 'utf8');
  for (const [from, to] of changes) {
    const changed = text.replace(from, to);
    if (changed === text) throw new Error(`${CONFIGURATION} has no ${from}`);
    text = changed;
  }
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${at(name)};`).join(' ');
  await writeFile(at('replicas.conf'), text);
  await writeFile(at('nginx.conf'), `daemon off; master_process off; pid ${at('pid')}; events { worker_connections 4096; }\nhttp { ${temporary} include ${at('replicas.conf')}; }\n`);
  await server.start(programPath('nginx'), ['-e', 'stderr', '-c', at('nginx.conf')]);
  return server;
}
