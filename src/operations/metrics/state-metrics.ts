import { stat, statfs } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { Injectable } from '@nestjs/common';
import { Gauge } from 'prom-client';
import { type HealthState, Readiness } from '../health/readiness.js';
import { Metrics } from './metrics.js';

const STATES: readonly HealthState[] = ['up', 'degraded', 'down'];

/** The directories whose volumes are measured: `root` and its subdirectories `parts`; none if `root` is undefined. */
export class MeasuredDirectories {
  constructor(
    readonly root: string | undefined,
    readonly parts: readonly string[],
  ) {}
}

interface Volume {
  readonly directory: string;
  readonly free: number;
  readonly size: number;
}

/** Measures the health of the dependencies, and the space on the volumes of DATA_DIR. */
@Injectable()
export class StateMetrics {
  private checking: Promise<Readonly<Record<string, HealthState>>> | undefined;
  private measuring: Promise<readonly Volume[]> | undefined;

  constructor(
    { registry }: Metrics,
    private readonly readiness: Readiness,
    private readonly directories: MeasuredDirectories,
  ) {
    registry.registerMetric(this.ready());
    registry.registerMetric(this.dependencies());
    if (directories.root === undefined) return;
    registry.registerMetric(this.space('load_data_disk_free_bytes', 'Bytes that are free on each volume of DATA_DIR', 'free'));
    registry.registerMetric(this.space('load_data_disk_size_bytes', 'Size of each volume of DATA_DIR in bytes', 'size'));
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

  private states(): Promise<Readonly<Record<string, HealthState>>> {
    this.checking ??= this.readiness.states().finally(() => { this.checking = undefined; });
    return this.checking;
  }

  private space(name: string, help: string, member: 'free' | 'size'): Gauge {
    const volumes = () => this.volumes();
    return new Gauge({
      name,
      help,
      labelNames: ['directory'],
      registers: [],
      async collect() {
        const found = await volumes();
        this.reset();
        for (const volume of found) this.set({ directory: volume.directory }, volume[member]);
      },
    });
  }

  /** Callers share a measurement in progress, so that the gauges of free space and size have the same directories. */
  private volumes(): Promise<readonly Volume[]> {
    this.measuring ??= volumesOf(this.directories).finally(() => { this.measuring = undefined; });
    return this.measuring;
  }
}

async function volumesOf({ root = '', parts }: MeasuredDirectories): Promise<Volume[]> {
  const measured = await Promise.all(['', ...parts].map((part) => volumeAt(join(root, part), posix.join('DATA_DIR', part)).catch(() => undefined)));
  const volumes = new Map<bigint, Volume>();
  for (const found of measured) if (found && !volumes.has(found.device)) volumes.set(found.device, found.volume);
  return [...volumes.values()];
}

async function volumeAt(path: string, directory: string): Promise<{ readonly device: bigint; readonly volume: Volume }> {
  const [{ dev }, { bavail, blocks, bsize }] = await Promise.all([stat(path, { bigint: true }), statfs(path)]);
  return { device: dev, volume: { directory, free: bavail * bsize, size: blocks * bsize } };
}
