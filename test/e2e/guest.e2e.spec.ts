import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import type { IncomingMessage, Server } from 'node:http';
import { stripVTControlCharacters } from 'node:util';
import {
  Body,
  type CallHandler,
  type CanActivate,
  Catch,
  ConflictException,
  ConsoleLogger,
  Controller,
  type DynamicModule,
  type ExceptionFilter,
  type ArgumentsHost,
  type ExecutionContext,
  Get,
  HttpException,
  Module,
  type NestApplicationOptions,
  type NestInterceptor,
  type PipeTransform,
  Post,
  type Type,
  UnauthorizedException,
  ValidationPipe,
  VersioningType,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { IsString } from 'class-validator';
import express, { type ErrorRequestHandler, type RequestHandler, type Response } from 'express';
import { map } from 'rxjs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { HttpAdapter } from '../../src/http/http.adapter.js';
import { AuthenticationModule, IdentityManagementModule, IngestionModule, PERMISSIONS } from '../../src/index.js';
import { InMemoryFileStorage } from '../../src/testing/in-memory.file-storage.js';
import { InMemoryIdentityProvider } from '../../src/testing/in-memory.identity-provider.js';
import { AUDIENCE, jwkOf, now, signToken, TestIssuer } from '../../src/testing/test-issuer.js';
import { applying } from '../support/applying.js';
import { CollectingLogger } from '../support/collecting-logger.js';
import { isEachCaseTried } from '../support/cases.js';
import { open } from '../support/raw.js';
import { sharedRsaKey } from '../support/signing-keys.js';

const key = sharedRsaKey();
const issuer = new TestIssuer();
beforeAll(async () => {
  issuer.keys = [jwkOf(key, { kid: 'k' })];
  await issuer.start();
});
afterAll(() => issuer.stop());

const bearer = (): string => `Bearer ${signToken(key, { alg: 'RS256', kid: 'k' }, { iss: issuer.url, aud: AUDIENCE, sub: 'ada', exp: now() + 60, permissions: PERMISSIONS })}`;

class EchoDto {
  @IsString()
  readonly text!: string;
}

@Controller('team')
class TeamController {
  @Get()
  list(): object {
    return { team: true };
  }

  @Post('echo')
  echo(@Body() body: EchoDto): object {
    return { body };
  }

  @Get('conflict')
  conflict(): never {
    throw new ConflictException('taken');
  }
}

@Module({ controllers: [TeamController] })
class TeamModule {}

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Host {
  readonly what: string;
  readonly options?: Pick<NestApplicationOptions, 'bodyParser' | 'rawBody' | 'logger'>;
  readonly adapter?: () => ExpressAdapter;
  readonly setUp?: (app: NestExpressApplication) => void;
  readonly module?: Type;
  /**
   * The prefixes of the paths of the service's operations (`ours`), and of those of the host application's controller
   * (`theirs`).
   */
  readonly ours?: string;
  readonly theirs?: string;
  /**
   * The bodies with which the host application's own controller answers its requests: one body for each of `list`,
   * `echo`, `wrong` and `conflict`. Default: the bodies on a host with Nest's defaults.
   */
  readonly list?: object;
  readonly echo?: object;
  readonly wrong?: object;
  readonly conflict?: object;
}

interface Started {
  readonly url: string;
  readonly port: number;
  readonly storage: InMemoryFileStorage;
  readonly log: CollectingLogger;
}

async function start({ adapter, options, setUp, module = TeamModule }: Host, order: 'before' | 'after' = 'before'): Promise<Started> {
  const storage = new InMemoryFileStorage();
  const authentication = AuthenticationModule.forRoot({ issuer: issuer.url, audience: AUDIENCE, keySet: { url: issuer.keySetUrl } });
  const ours: DynamicModule[] = [
    IngestionModule.forRoot({ fileStorage: { useValue: storage }, authentication, openUploads: true }),
    IdentityManagementModule.forRoot({ identityProvider: { useClass: InMemoryIdentityProvider }, authentication }),
  ];
  @Module({ imports: order === 'before' ? [...ours, module] : [module, ...ours] })
  class HostModule {}

  const log = new CollectingLogger();
  // Takes some options with `Pick`, because Nest declares a part of its options as a class that it doesn't export.
  const all: Pick<NestApplicationOptions, 'bodyParser' | 'rawBody' | 'logger'> = { logger: log, ...options };
  const app = await NestFactory.create<NestExpressApplication>(HostModule, adapter?.() ?? new ExpressAdapter(), all);
  setUp?.(app);
  await app.listen(0, '127.0.0.1');
  const server: Server = app.getHttpServer();
  closing.push(async () => {
    server.closeAllConnections();
    await app.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, url: `http://127.0.0.1:${port}`, storage, log };
}

async function answerOf(pending: Promise<globalThis.Response>): Promise<{ status: number; body: unknown; headers: Headers }> {
  const { status, headers, ...answer } = await pending.then(async (response) => ({ status: response.status, headers: response.headers, text: await response.text() }));
  return { status, headers, body: JSON.parse(answer.text) as unknown };
}

const UPLOAD = '/ingestHistoricalLoadData/upload_historical';
const QUERY = '?customer_id=a&filename=b.csv&manufacturer=c';
const IDENTITY = '/idpManagementBackend';
const SUCCESS = { status: 'success', message: 'Data uploaded successfully.' };
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;
const post = (type: string, body: string | URLSearchParams, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'Content-Type': type, ...headers },
  body,
});
const json = (body: string, headers: Record<string, string> = {}): RequestInit => post('application/json', body, headers);

class Wrapping implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

@Catch()
class TeamFilter implements ExceptionFilter {
  catch(_exception: unknown, host: ArgumentsHost): void {
    host.switchToHttp().getResponse<Response>().status(418).json({ team: 'failed' });
  }
}

/** A pipe of the host application that replaces every value, like a pipe that trims all texts. */
class Replacing implements PipeTransform {
  transform(): object {
    return { text: 'replaced' };
  }
}

const nestError = (statusCode: number, error: string, message: unknown): object => ({ message, error, statusCode });

/** Wraps `writeHead` like `on-headers` before 1.1.0, which knows no list of names and values in turn. */
const wrapWriteHead: RequestHandler = (_request, response, next) => {
  const writeHead = response.writeHead.bind(response);
  response.writeHead = (statusCode: number, ...rest: readonly unknown[]) => {
    const headers = rest.at(-1) ?? {};
    const pairs = Array.isArray(headers) ? (headers as [string, string][]).map(([name, value]) => [name, value] as const) : Object.entries(headers as Record<string, string>);
    for (const [name, value] of pairs) response.setHeader(name, value);
    return writeHead(statusCode);
  };
  next();
};

const HOSTS: readonly Host[] = [
  { what: "Nest's defaults" },
  { what: "the service's own adapter", adapter: () => new HttpAdapter() },
  { what: 'a global prefix', setUp: (app) => app.setGlobalPrefix('api'), ours: '/api', theirs: '/api' },
  { what: 'versions in the path', setUp: (app) => app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' }), theirs: '/v1' },
  {
    what: 'a prefix and versions in the path',
    setUp: (app) => app.setGlobalPrefix('api').enableVersioning({ type: VersioningType.URI, defaultVersion: '2' }),
    ours: '/api',
    theirs: '/api/v2',
  },
  {
    what: 'a validation pipe for everything',
    setUp: (app) => app.useGlobalPipes(new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true, transform: true, validateCustomDecorators: true })),
    wrong: { status: 400, body: nestError(400, 'Bad Request', ['text must be a string']) },
  },
  { what: 'a pipe that changes every value', setUp: (app) => app.useGlobalPipes(new Replacing()), echo: { body: { text: 'replaced' } }, wrong: { status: 201, body: { body: { text: 'replaced' } } } },
  {
    what: 'an interceptor that wraps every answer',
    setUp: (app) => app.useGlobalInterceptors(new Wrapping()),
    list: { data: { team: true } },
    echo: { data: { body: { text: 'x' } } },
    wrong: { status: 201, body: { data: { body: { text: 1 } } } },
  },
  { what: 'a filter for every error', setUp: (app) => app.useGlobalFilters(new TeamFilter()), conflict: { status: 418, body: { team: 'failed' } } },
  { what: 'a parser of JSON', setUp: (app) => app.use(express.json()) },
  { what: 'a parser of JSON alone', options: { bodyParser: false }, setUp: (app) => app.use(express.json({ limit: 10 ** 6 })) },
  { what: 'a parser below a path', options: { bodyParser: false }, setUp: (app) => app.use('/', express.json()) },
  { what: 'useBodyParser', options: { bodyParser: false }, setUp: (app) => app.useBodyParser('json', { limit: '1mb' }) },
  { what: 'raw bodies kept', options: { rawBody: true } },
  { what: 'a middleware that reads headers as they are written', setUp: (app) => app.use(wrapWriteHead) },
  { what: 'parsers of all types', setUp: (app) => app.use(express.raw({ type: 'text/csv' })).use(express.text({ type: 'application/xml' })) },
];

describe.each(['before', 'after'] as const)("the service's modules, imported %s the modules of a host", (order) => {
  // What a host sets up on its application hardly depends on the order. The slow tests try all hosts in both.
  const hosts = order === 'before' || isEachCaseTried ? HOSTS : HOSTS.slice(0, 3);
  it.each(hosts)('with $what: the operations answer as in the service', async (host) => {
    const { url, storage } = await start(host, order);
    const base = url + (host.ours ?? '');
    const uploads: [RequestInit, string | null][] = [
      [json('{"additional_data":"x"}'), 'x'],
      [post('text/csv', 'a,b'), null],
      [post('application/xml', '<a/>'), null],
    ];
    for (const [init] of uploads) {
      const answer = await answerOf(fetch(base + UPLOAD + QUERY, init));
      expect(answer).toMatchObject({ status: 200, body: SUCCESS });
      expect(answer.headers.get('x-request-id')).toMatch(REQUEST_ID);
      expect(answer.headers.get('x-upload-id')).toBe(storage.uploads.at(-1)?.uploadId);
      expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
    }
    expect(storage.uploads.map(({ additionalData }) => additionalData)).toEqual(uploads.map(([, additionalData]) => additionalData));
    expect(storage.uploads.map(({ content }) => content?.size)).toEqual([undefined, 3, 4]);

    const created = await answerOf(fetch(`${base + IDENTITY}/create-user`, json('{"email":"ada@grid.example","roles":[]}', { Authorization: bearer() })));
    expect(created).toMatchObject({ status: 201, body: { status: 'success', message: 'User created successfully.' } });
    const listed = await answerOf(fetch(`${base + IDENTITY}/users`, { headers: { Authorization: bearer() } }));
    expect(listed).toMatchObject({ status: 200, body: { users: [{ email: 'ada@grid.example' }] } });

    const refusals: [string, RequestInit, number, string][] = [
      [UPLOAD, { method: 'POST' }, 400, 'Invalid or missing query parameter.'],
      [UPLOAD + QUERY, json('{'), 400, 'Invalid request body.'],
      [UPLOAD + QUERY, { method: 'POST', body: new URLSearchParams({ a: 'b' }) }, 415, 'Unsupported media type.'],
      [`${IDENTITY}/create-user`, json('{'), 403, 'Unauthorized.'],
      [`${IDENTITY}/create-user`, json('{', { Authorization: bearer() }), 400, 'Invalid email or roles.'],
    ];
    for (const [path, init, status, error] of refusals) {
      const answer = await answerOf(fetch(base + path, init));
      expect({ path, ...answer }).toMatchObject({ path, status, body: { error } });
      expect(answer.headers.get('x-request-id')).toMatch(REQUEST_ID);
    }
  });

  it.each(hosts)("with $what: the host's own routes answer as without the service", async (host) => {
    const { url } = await start(host, order);
    const base = url + (host.theirs ?? '');
    const { list = { team: true }, echo = { body: { text: 'x' } }, conflict = { status: 409, body: nestError(409, 'Conflict', 'taken') } } = host;
    const listed = await answerOf(fetch(`${base}/team`, { headers: { 'X-Request-Id': 'x' } }));
    expect(listed).toMatchObject({ status: 200, body: list });
    expect(listed.headers.get('x-request-id')).toBeNull();
    expect(await answerOf(fetch(`${base}/team/echo`, json('{"text":"x"}')))).toMatchObject({ status: 201, body: echo });
    expect(await answerOf(fetch(`${base}/team/echo`, json('{"text":1}')))).toMatchObject(host.wrong ?? { status: 201, body: { body: { text: 1 } } });
    expect(await answerOf(fetch(`${base}/team/conflict`))).toMatchObject(conflict);
    const missing = host.conflict ?? { status: 404, body: nestError(404, 'Not Found', `Cannot GET ${host.ours ?? ''}/nothing`) };
    expect(await answerOf(fetch(`${url}${host.ours ?? ''}/nothing`))).toMatchObject(missing);
  });
});

describe("the service's modules as guests", () => {
  it("answer the refusals of the host's guards in the interface's form", async () => {
    class NobodyGuard implements CanActivate {
      canActivate(): never {
        throw new UnauthorizedException('nobody');
      }
    }
    const { url } = await start({ what: 'a guard', setUp: (app) => app.useGlobalGuards(new NobodyGuard()) });
    expect(await answerOf(fetch(url + UPLOAD + QUERY, json('{}')))).toMatchObject({ status: 403, body: { error: 'Unauthorized.' } });
    expect(await answerOf(fetch(`${url}/team`))).toMatchObject({ status: 401, body: nestError(401, 'Unauthorized', 'nobody') });
  });

  it.each([
    ['wait with 100 Continue until the body is wanted', '100-continue', 'HTTP/1.1 100 Continue'],
    ['ignore an unknown expectation', 'wonders', 'HTTP/1.1 417 Expectation Failed'],
  ])('%s, and leave it to Node on other routes', async (_, expectation, theirs) => {
    const { port } = await start({ what: 'defaults' });
    const ask = async (path: string) => {
      const socket = await open(port);
      socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nExpect: ${expectation}\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n`);
      const [first] = (await once(socket, 'data')) as [Buffer];
      socket.destroy();
      return first.toString().split('\r\n')[0];
    };
    expect(await ask(UPLOAD)).toBe('HTTP/1.1 400 Bad Request');
    expect(await ask('/team/echo')).toBe(theirs);
  });

  const READ_BODY = "A middleware of the application has read the body of a request to load-data-service, so the request fails. Exclude the service's routes from that middleware (docs/beside-your-own-controllers.md#body-parsers).";
  const READERS: readonly Host[] = [
    { what: 'a middleware of its own', setUp: (app) => app.use(readAll) },
    { what: 'a parser that Nest applies to all routes', module: applying((consumer) => consumer.apply(express.json()).forRoutes('*path'), TeamController) },
    { what: 'a parser in a function of its own', setUp: (app) => app.use(unrecognized) },
    { what: 'a parser and a filter for every error', setUp: (app) => app.useGlobalFilters(new TeamFilter()), module: applying((consumer) => consumer.apply(express.json()).forRoutes('*path'), TeamController) },
  ];
  it.each(READERS)('log one line if $what has read a body, and store nothing', async (host) => {
    const { url, storage, log } = await start(host);
    expect(await answerOf(fetch(url + UPLOAD + QUERY, json('{"additional_data":"x"}')))).toMatchObject({ status: 500, body: { error: 'Internal server error.' } });
    expect(log.entries.filter(({ level }) => level !== 'info')).toEqual([{ level: 'error', text: expect.stringContaining('"event":"body-already-read"') as string }]);
    expect(log.text).toContain(READ_BODY);
    expect(log.text).not.toContain('stack');
    expect(storage.uploads).toEqual([]);
  });

  it.each(READERS.slice(1))("answer in the interface's form if $what refuses a body, and log one line that it has read it", async (host) => {
    const { url, log } = await start(host);
    const answer = await answerOf(fetch(url + UPLOAD + QUERY, json('{')));
    expect(answer).toMatchObject({ status: 400, body: { error: 'Bad request.' } });
    expect(answer.body).toEqual({ error: 'Bad request.' });
    expect(log.entries.filter(({ level }) => level !== 'info')).toEqual([{ level: 'error', text: expect.stringContaining('"event":"body-already-read"') as string }]);
    const theirs = await answerOf(fetch(`${url}/team/echo`, json('{')));
    expect(theirs).toMatchObject(host.what.includes('filter') ? { status: 418, body: { team: 'failed' } } : { status: 400, body: { statusCode: 400 } });
  });

  it("print one line for each request, and one for a body that was already read, with Nest's own logger", async () => {
    const printed = new PrintedLogger();
    const { url } = await start({ what: "Nest's own logger", options: { logger: printed }, setUp: (app) => app.use(readAll) });
    printed.texts.length = 0;
    await answerOf(fetch(url + UPLOAD + QUERY, json('{}', { 'X-Request-Id': 'r-1' })));
    expect(printed.texts).toEqual([
      expect.stringMatching(/ERROR.*A middleware of the application .* event=body-already-read method=POST path=\/ingestHistoricalLoadData\/upload_historical requestId=r-1\n$/),
      expect.stringMatching(/LOG.*request requestId=r-1 method=POST path=\/ingestHistoricalLoadData\/upload_historical status=500 ms=\S+ kind=internal .*\n$/),
    ]);
  });

  it.each<[string, Partial<Host>, object]>([
    ['throws in app.use', { setUp: (app) => app.use(throwTeapot) }, { error: 'Bad request.' }],
    ['passes to next in app.use', { setUp: (app) => app.use(passTeapot) }, { error: 'Bad request.' }],
    ['passes to next in consumer.apply', { module: applying((consumer) => consumer.apply(passTeapot).forRoutes('*path'), TeamController) }, { error: 'Bad request.' }],
    ['throws in consumer.apply', { module: applying((consumer) => consumer.apply(throwTeapot).forRoutes('*path'), TeamController) }, { statusCode: 418, message: 'tea' }],
    ['throws in consumer.apply beside a filter', { setUp: (app) => app.useGlobalFilters(new TeamFilter()), module: applying((consumer) => consumer.apply(throwTeapot).forRoutes('*path'), TeamController) }, { team: 'failed' }],
    ['passes to an error handler of the host', { setUp: (app) => app.use(passTeapot).use(answerTea) }, { tea: true }],
  ])('answer what a middleware %s as the page says', async (what, host, body) => {
    const { url } = await start({ what, ...host });
    const answer = await answerOf(fetch(url + UPLOAD + QUERY, json('{}')));
    expect(answer.body).toEqual(body);
    expect(answer.headers.get('x-request-id')).toMatch(REQUEST_ID);
  });

  it.each<[string, Partial<Host>]>([
    ['no prefix', {}],
    ['a prefix', { setUp: (app) => app.setGlobalPrefix('api'), ours: '/api' }],
  ])('read their bodies where a parser is excluded from their routes as the page says, with %s', async (what, host) => {
    const page = await readFile('docs/beside-your-own-controllers.md', 'utf8');
    expect(page).toContain(`.exclude(${EXCLUDED.map((path) => `'${path}'`).join(', ')})`);
    const { url, storage, log } = await start({ what, ...host, module: applying((consumer) => consumer.apply(express.json()).exclude(...EXCLUDED).forRoutes('*path'), TeamController) });
    expect(await answerOf(fetch(url + (host.ours ?? '') + UPLOAD + QUERY, json('{"additional_data":"x"}')))).toMatchObject({ status: 200 });
    const created = await answerOf(fetch(`${url + (host.ours ?? '') + IDENTITY}/create-user`, json('{"email":"ada@grid.example","roles":[]}', { Authorization: bearer() })));
    expect(created).toMatchObject({ status: 201 });
    expect(storage.uploads).toHaveLength(1);
    expect(log.text).not.toContain('body-already-read');
  });

  it("answer in the interface's form to a path with an id that can't be decoded", async () => {
    const { url } = await start({ what: 'defaults' });
    const answer = await answerOf(fetch(`${url}/uploads/%E0%A4%A`, { headers: { Authorization: bearer() } }));
    expect([answer.status, answer.body]).toEqual([404, { error: 'Not found.' }]);
    expect(answer.headers.get('x-request-id')).toMatch(REQUEST_ID);
  });
});

it("an error of the application's middleware that can't decode something is 500 on the service's paths, and logged", async () => {
  const middleware = (_request: unknown, _response: unknown, next: (error: unknown) => void): void => {
    next(new URIError('of a middleware'));
  };
  const { url, log } = await start({ what: 'defaults', module: applying((consumer) => consumer.apply(middleware).forRoutes('uploads/*path'), TeamController) });
  expect((await fetch(`${url}/uploads/x`, { headers: { Authorization: bearer() } })).status).toBe(500);
  expect(log.text).toContain('of a middleware');
});

/** What docs/beside-your-own-controllers.md excludes from a parser that Nest applies. */
const EXCLUDED = ['ingestHistoricalLoadData/*path', 'ingestNowcastLoadData/*path', 'idpManagementBackend/*path'];

const throwTeapot = (): never => {
  throw new HttpException('tea', 418);
};
const passTeapot = (_request: unknown, _response: unknown, next: (error: unknown) => void): void => {
  next(new HttpException('tea', 418));
};
const answerTea: ErrorRequestHandler = (_error, _request, response, _next) => {
  response.json({ tea: true });
};

const parse: RequestHandler = express.json();
const unrecognized: RequestHandler = (request, response, next) => {
  parse(request, response, next);
};

const readAll = (request: IncomingMessage, _response: unknown, next: () => void): void => void request.on('end', next).resume();

/** Nest's own logger, whose texts are kept instead of printed. */
class PrintedLogger extends ConsoleLogger {
  readonly texts: string[] = [];

  constructor() {
    // Without colours, Nest's logger prints even a plain object as one line.
    super({ colors: true });
  }

  protected override formatMessage(...parts: Parameters<ConsoleLogger['formatMessage']>): string {
    this.texts.push(stripVTControlCharacters(super.formatMessage(...parts)));
    return '';
  }
}
