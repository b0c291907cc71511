import { Catch, type ExceptionFilter, Get, HttpException, type INestApplication, type NestApplicationOptions, Next, Param, Query, type Type, UseFilters } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HttpAdapter } from './http.adapter.js';
import { HttpModule } from './http.module.js';
import { ServiceController } from './service-controller.decorator.js';
import { WholeApplicationModule } from './whole-application.module.js';

const OPTIONS: Pick<NestApplicationOptions, 'bodyParser' | 'logger'> = { bodyParser: false, logger: false };
const TEXT = 'what somebody else wrote';

/**
 * A controller whose handlers throw exceptions as other code does: an HttpException like a guard of Nest, an error with
 * a status like middleware of Express, and any other error.
 */
@ServiceController('')
class ThrowingController {
  @Get('nest/:status')
  nest(@Param('status') status: string): never {
    throw new HttpException(TEXT, Number(status));
  }

  @Get('express/:status')
  express(@Param('status') status: string): never {
    throw Object.assign(new Error(TEXT), { status: Number(status) });
  }

  @Get('other')
  other(): never {
    throw new Error(TEXT);
  }
}

/** A filter that fails, so that Express gets the exception. */
@Catch()
class RethrowingFilter implements ExceptionFilter {
  catch(exception: unknown): never {
    throw exception as Error;
  }
}

/** A controller whose handlers pass what they get to Express. The first route has no parameter, so it is called directly. */
@ServiceController('')
class PassingController {
  @Get(['direct', 'routed/:name'])
  pass(@Next() next: (error?: unknown) => void, @Query('status') status?: string): void {
    next(status === undefined ? undefined : Object.assign(new Error(TEXT), { status: Number(status) }));
  }

  @Get(['direct/thrown', 'routed/thrown/:name'])
  @UseFilters(RethrowingFilter)
  throw(): never {
    throw new Error(TEXT);
  }
}

async function start(module: Type, controller: Type): Promise<INestApplication> {
  const compiled = await Test.createTestingModule({ imports: [module], controllers: [controller] }).compile();
  const app = compiled.createNestApplication(new HttpAdapter(), OPTIONS);
  await app.listen(0, '127.0.0.1');
  return app;
}

describe.each(['direct', 'routed'])('a route that is %s', (way) => {
  let app: INestApplication;
  beforeAll(async () => {
    app = await start(WholeApplicationModule, PassingController);
  });
  afterAll(() => app.close());

  it.each([
    ['an error', '?status=413', 413, 'Payload too large.'],
    ['nothing', '', 404, 'Not found.'],
    ['an error that a filter throws', '/thrown', 500, 'Internal server error.'],
  ])('answers when its handler passes on %s', async (_what, rest, status, error) => {
    const name = way === 'routed' ? '/x' : '';
    const path = rest.startsWith('/') ? `${way}${rest}${name}` : `${way}${name}${rest}`;
    const answer = await fetch(`${await app.getUrl()}/${path}`);
    expect([answer.status, await answer.json()]).toEqual([status, { error }]);
  });
});

describe('an exception of other code', () => {
  let app: INestApplication;
  beforeAll(async () => {
    app = await start(HttpModule, ThrowingController);
  });
  afterAll(() => app.close());

  const answerOf = async (path: string) => {
    const answer = await fetch(`${await app.getUrl()}/${path}`);
    return [answer.status, await answer.text()];
  };
  const ANSWERS: readonly (readonly [number, number, string])[] = [
    [400, 400, 'Bad request.'],
    [401, 403, 'Unauthorized.'],
    [403, 403, 'Unauthorized.'],
    [404, 404, 'Not found.'],
    [408, 408, 'Request timeout.'],
    [413, 413, 'Payload too large.'],
    [415, 415, 'Unsupported media type.'],
    [418, 400, 'Bad request.'],
    [429, 429, 'Too many requests.'],
    [499, 400, 'Bad request.'],
    [500, 500, 'Internal server error.'],
    [503, 500, 'Internal server error.'],
  ];

  it.each(ANSWERS)('with the status %i is answered with %i %s', async (thrown, status, error) => {
    expect(await answerOf(`nest/${thrown}`)).toEqual([status, JSON.stringify({ error })]);
    expect(await answerOf(`express/${thrown}`)).toEqual([status, JSON.stringify({ error })]);
  });

  it('without a status is answered with 500', async () => {
    expect(await answerOf('other')).toEqual([500, '{"error":"Internal server error."}']);
  });
});
