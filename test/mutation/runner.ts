import { appendFileSync, readFileSync } from 'node:fs';
import { type RunnerTask, type RunnerTestFile, TestRunner } from 'vitest';
import { type Plan, reached, type SpecRecord } from './plan.js';

const plan = JSON.parse(readFileSync(process.env.MUTATION_PLAN ?? '', 'utf8')) as Plan;

/** The real time, also while a test fakes it. */
const now = performance.now.bind(performance);

const taken = (): number[] => {
  const mutants = [...reached];
  reached.clear();
  return mutants;
};

const pathOf = ({ filepath }: RunnerTestFile): string => filepath.slice(process.cwd().length + 1);
const nameOf = (task: RunnerTask): string => (task.suite && task.suite !== task.file ? `${nameOf(task.suite)} > ${task.name}` : task.name);

/** Leaves out the tests that the plan skips, or notes which mutants each test reaches and how long it takes. */
export default class MutationRunner extends TestRunner {
  private began = 0;
  private testBegan = 0;
  private record: SpecRecord = { spec: '', ms: 0, imports: [], hooks: [], tests: {} };

  override onCollectStart(file: RunnerTestFile): void {
    super.onCollectStart(file);
    this.began = now();
    reached.clear();
  }

  onCollected([file]: RunnerTestFile[]): void {
    if (!file) return;
    this.record = { spec: pathOf(file), ms: 0, imports: taken(), hooks: [], tests: {} };
    const skipped = new Set(plan.skipped[this.record.spec]);
    if (skipped.size > 0) for (const task of file.tasks) skip(task, skipped);
  }

  override async onBeforeRunTask(test: RunnerTask): Promise<void> {
    this.record.hooks.push(...taken());
    this.testBegan = now();
    await super.onBeforeRunTask(test);
  }

  override onAfterRunTask(test: RunnerTask): void {
    super.onAfterRunTask(test);
    const name = nameOf(test);
    const known = this.record.tests[name] ?? { ms: 0, hasFailed: false, mutants: [] };
    this.record.tests[name] = { ms: known.ms + now() - this.testBegan, hasFailed: known.hasFailed || test.result?.state === 'fail', mutants: [...known.mutants, ...taken()] };
  }

  override onAfterRunFiles(): void {
    super.onAfterRunFiles();
    this.record.hooks.push(...taken());
    this.record.ms = now() - this.began;
    if (plan.recordTo) appendFileSync(plan.recordTo, `${JSON.stringify(this.record)}\n`);
  }
}

function skip(task: RunnerTask, skipped: ReadonlySet<string>): void {
  if (task.type === 'test') {
    if (skipped.has(nameOf(task))) task.mode = 'skip';
    return;
  }
  for (const inner of task.tasks) skip(inner, skipped);
  if (task.tasks.every(({ mode }) => mode === 'skip' || mode === 'todo')) task.mode = 'skip';
}
