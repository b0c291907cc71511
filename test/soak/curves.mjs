const WIDTH = 900;
const HEIGHT = 120;
const LEFT = 170;
const MARGIN = 20;
const MOST_POINTS = 600;

/**
 * Draws curves below one another, each with its own scale from zero.
 *
 * @param {string} title
 * @param {{ name: string, unit: string, points: readonly (readonly [seconds: number, value: number])[] }[]} curves
 * @param {number} seconds the length of the time axis
 * @returns {string} an SVG
 */
export function drawCurves(title, curves, seconds) {
  const height = MARGIN * 3 + curves.length * (HEIGHT + MARGIN);
  const rows = curves.map((curve, row) => drawCurve(curve, MARGIN * 2 + row * (HEIGHT + MARGIN), seconds));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${LEFT + WIDTH + MARGIN} ${height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
<text x="${MARGIN}" y="${MARGIN}" font-size="14">${escaped(title)}</text>
${rows.join('\n')}
<text x="${LEFT + WIDTH}" y="${height - MARGIN / 2}" text-anchor="end">${Math.round(seconds / 60)} min</text>
</svg>
`;
}

function drawCurve({ name, unit, points }, top, seconds) {
  const most = Math.max(...points.map(([, value]) => value)) || 1;
  const step = Math.max(1, Math.ceil(points.length / MOST_POINTS));
  const shown = points.filter((_, index) => index % step === 0);
  const line = shown.map(([at, value]) => `${(LEFT + (at / seconds) * WIDTH).toFixed(1)},${(top + HEIGHT - (value / most) * HEIGHT).toFixed(1)}`);
  return `<text x="${MARGIN}" y="${top + HEIGHT / 2}">${escaped(name)}</text>
<text x="${LEFT - 6}" y="${top + 10}" text-anchor="end">${format(most)} ${unit}</text>
<text x="${LEFT - 6}" y="${top + HEIGHT}" text-anchor="end">0</text>
<path d="M${LEFT} ${top}v${HEIGHT}h${WIDTH}" fill="none" stroke="#999"/>
<polyline points="${line.join(' ')}" fill="none" stroke="#06c" stroke-width="1.5"/>`;
}

const format = (value) => (value < 10 ? value.toFixed(2) : value.toFixed(0));

const escaped = (text) => text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
