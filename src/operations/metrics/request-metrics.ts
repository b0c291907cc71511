import type { Server } from 'node:http';
import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { Express, Request } from 'express';
import type { Metric, MetricValueWithName } from 'prom-client';
import { type EndedExchange, EXCHANGE_END } from '../../http/exchange.js';
import { serviceRoutes } from '../../http/route-table.js';
import { Metrics, SECONDS } from './metrics.js';

interface RouteTally {
  readonly labels: { readonly method: string; readonly route: string };
  readonly statuses: Map<number, number>;
  /**
   * Requests by duration: bucket `i` counts those above SECONDS[i - 1], up to and including SECONDS[i]; the last one,
   * those above all.
   */
  readonly buckets: number[];
  seconds: number;
}

/**
 * The time series of these begin at 0 for the service's own routes, because a rate in Prometheus can't include the error
 * with which a series begins.
 */
const SERVER_ERRORS = [500, 502, 503];

const DURATION = { name: 'http_request_duration_seconds', help: 'Time from head to answer' };

/**
 * Counts and measures the requests that were answered completely, except those that the HTTP parser refused. Counts in
 * plain numbers, because counting each request with prom-client took 6 % of the time of a small upload.
 */
@Injectable()
export class RequestMetrics implements OnApplicationBootstrap {
  private readonly tallies = new Map<string, RouteTally>();

  constructor(
    private readonly host: HttpAdapterHost,
    metrics: Metrics,
  ) {
    metrics.tallied('http_requests_total', 'HTTP requests answered', ['method', 'route', 'status'], () => this.counts());
    metrics.registry.registerMetric(this.durations());
  }

  onApplicationBootstrap(): void {
    const { httpAdapter } = this.host;
    for (const { method, path } of serviceRoutes(httpAdapter.getInstance<Express>())) this.newTally(`${method} ${path}`, { method, route: path });
    (httpAdapter.getHttpServer() as Server).on(EXCHANGE_END, this.count);
  }

  private readonly count = ({ request, response, startedAt, endedAt }: EndedExchange): void => {
    if (!response.writableFinished) return;
    const { method = '' } = request;
    const route = ((request as Request).route as { path?: string } | undefined)?.path ?? 'unmatched';
    const seconds = (endedAt - startedAt) / 1000;
    const key = `${method} ${route}`;
    const tally = this.tallies.get(key) ?? this.newTally(key, { method, route });
    tally.statuses.set(response.statusCode, (tally.statuses.get(response.statusCode) ?? 0) + 1);
    tally.seconds += seconds;
    let at = 0;
    while (seconds > (SECONDS[at] ?? Infinity)) at += 1;
    tally.buckets[at] = (tally.buckets[at] ?? 0) + 1;
  };

  private newTally(key: string, labels: RouteTally['labels']): RouteTally {
    const statuses = new Map(SERVER_ERRORS.map((status) => [status, 0]));
    const tally = { labels, statuses, buckets: Array<number>(SECONDS.length + 1).fill(0), seconds: 0 };
    this.tallies.set(key, tally);
    return tally;
  }

  private *counts(): Generator<{ labels: Record<'method' | 'route' | 'status', string | number>; value: number }> {
    for (const { labels, statuses } of this.tallies.values()) {
      for (const [status, value] of statuses) yield { labels: { ...labels, status }, value };
    }
  }

  private durations(): Metric {
    // HEAD is rare. To keep the answer short, it has no histogram before its first request.
    const shown = () => [...this.tallies.values()].filter(({ labels, seconds }) => labels.method !== 'HEAD' || seconds > 0);
    const get = () => Promise.resolve({ ...DURATION, type: 'histogram', values: shown().flatMap(histogramOf), aggregator: 'sum' });
    // The registry of prom-client uses only the name of a metric and its function `get`.
    return { name: DURATION.name, get } as unknown as Metric;
  }
}

function histogramOf({ labels, buckets, seconds }: RouteTally): MetricValueWithName<string>[] {
  let count = 0;
  const cumulative = buckets.map((requests, at) => {
    count += requests;
    return { metricName: `${DURATION.name}_bucket`, labels: { le: SECONDS[at] ?? '+Inf', ...labels }, value: count };
  });
  return [...cumulative, { metricName: `${DURATION.name}_sum`, labels, value: seconds }, { metricName: `${DURATION.name}_count`, labels, value: count }];
}
