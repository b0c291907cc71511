import { statfs } from 'node:fs/promises';
import { Injectable } from '@nestjs/common';
import { Gauge } from 'prom-client';
import { type HealthState, Readiness } from '../health/readiness.js';
import { Metrics } from './metrics.js';

const STATES: readonly HealthState[] = ['up', 'degraded', 'down'];

/** The directory whose volume is measured; its path is undefined if the service keeps nothing in a directory. */
export class MeasuredDirectory {
  constructor(readonly path: string | undefined) {}
}

/**
 * Measures the health of the service's dependencies, as `/health/ready` reports it, and the space on the volume of
 * DATA_DIR. Measures whenever the metrics are read.
 */
@Injectable()
export class StateMetrics {
  private checking: Promise<Readonly<Record<string, HealthState>>> | undefined;

  constructor(
    { registry }: Metrics,
    private readonly readiness: Readiness,
    { path }: MeasuredDirectory,
  ) {
    registry.registerMetric(this.ready());
    registry.registerMetric(this.dependencies());
    if (path === undefined) return;
    registry.registerMetric(space('load_data_disk_free_bytes', 'Bytes that are free on the volume of DATA_DIR', path, 'bavail'));
    registry.registerMetric(space('load_data_disk_size_bytes', 'Size of the volume of DATA_DIR in bytes', path, 'blocks'));
  }

  private ready(): Gauge {
    const states = () => this.states();
    return new Gauge({
      name: 'load_data_ready',
      help: 'Whether the service is ready, as /health/ready says',
      registers: [],
      async collect() {
        this.set(Object.values(await states()).includes('down') ? 0 : 1);
      },
    });
  }

  private dependencies(): Gauge {
    const states = () => this.states();
    return new Gauge({
      name: 'load_data_dependency_state',
      help: '1 for the state of each dependency, 0 for its other states',
      labelNames: ['dependency', 'state'],
      registers: [],
      async collect() {
        const found = await states();
        this.reset();
        for (const [dependency, current] of Object.entries(found)) {
          for (const state of STATES) this.set({ dependency, state }, state === current ? 1 : 0);
        }
      },
    });
  }

  /** The states of the dependencies. Callers share a check while it is in progress. */
  private states(): Promise<Readonly<Record<string, HealthState>>> {
    this.checking ??= this.readiness.states().finally(() => { this.checking = undefined; });
    return this.checking;
  }
}

/**
 * A gauge of the free blocks (`bavail`) or all blocks of the volume of `path`, in bytes. The gauge has no value while
 * the volume can't be read.
 */
function space(name: string, help: string, path: string, member: 'bavail' | 'blocks'): Gauge {
  return new Gauge({
    name,
    help,
    registers: [],
    async collect() {
      const volume = await statfs(path).catch(() => undefined);
      if (volume) this.set(volume[member] * volume.bsize);
      else this.remove();
    },
  });
}
