const UNITS = { rate: '/s', throughput: ' MiB/s', growth: ' MiB', settled: ' MiB', last: ' MiB', kept: ' MiB', pages: ' pages', median: ' ms', p99: ' ms', boot: ' ms', keycloak: ' ms', service: ' ms' };
const HEADS = ['row', 'work', 'service', 'against', 'ratio', 'in the rounds', 'goal', ''];

/**
 * Judges a row by the medians of its figures over the rounds. A row also fails if there were answers other than 200.
 *
 * @param {object} row see goals.mjs
 * @param {Record<string, import('./contests.mjs').Outcome[]>} outcomes the outcomes of the row's contest, by entrant
 * @param {Record<string, object>} entrants the entrants of the row's contest, by name
 * @returns {{ ok: boolean, cells: string[] }} `cells`: the texts of the row in the table.
 */
export function judge({ name, work, of, to, goal }, outcomes, entrants) {
  const values = figuresOf(outcomes, of);
  const references = to ? figuresOf(outcomes, to) : [];
  const value = median(values);
  const reference = median(references);
  const faults = faultsOf([...outcomes[of[0]], ...(to ? outcomes[to[0]] : [])]);
  const met = goal.isMet(value, reference);
  const ratios = values.map((each, round) => each / references[round]).sort((a, b) => a - b);
  return {
    ok: met && faults === '',
    cells: [
      name,
      work,
      format(value, of[1]),
      to ? `${format(reference, to[1])} ${titleOf(of, to, entrants)}` : '',
      to ? ratio(value / reference) : '',
      to ? `${ratio(ratios[0])} to ${ratio(ratios.at(-1))}` : '',
      goal.title,
      faults === '' ? (met ? 'ok' : 'missed') : `failed: ${faults}`,
    ],
  };
}

export function table(lines) {
  const rows = [HEADS, ...lines];
  const widths = HEADS.map((_, column) => Math.max(3, ...rows.map((cells) => cells[column].length)));
  const line = (cells) => `| ${cells.map((cell, column) => cell.padEnd(widths[column])).join(' | ')} |`;
  return [line(HEADS), line(widths.map((width) => '-'.repeat(width))), ...lines.map(line)].join('\n');
}

export function summary(outcomes) {
  const names = Object.keys(outcomes[0].figures);
  const faults = faultsOf(outcomes);
  const figures = names.map((name) => `${name} ${format(median(outcomes.map(({ figures }) => figures[name])), name)}`);
  return [...figures, ...(faults === '' ? [] : [`failed: ${faults}`])].join(', ');
}

const figuresOf = (outcomes, [entrant, figure]) => outcomes[entrant].map(({ figures }) => figures[figure]);

function titleOf([own], [other, figure], entrants) {
  if (own === other) return figure;
  return entrants[own].competitor === entrants[other].competitor ? other : entrants[other].competitor.title;
}

function faultsOf(outcomes) {
  const counts = new Map();
  for (const [status, count] of outcomes.flatMap(({ others }) => Object.entries(others))) {
    counts.set(status, (counts.get(status) ?? 0) + count);
  }
  return [...counts].map(([status, count]) => `${count} x ${status}`).join(', ');
}

/** @param {number[]} values @returns the median of the values; NaN if there are none. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const ratio = (value) => (Number.isFinite(value) ? value.toFixed(2) : 'none');

function format(value, figure) {
  const digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  return `${value.toFixed(digits)}${UNITS[figure]}`;
}
