import ts from 'typescript';

const { SyntaxKind } = ts;

const OPERATORS = new Map([
  [SyntaxKind.LessThanToken, '<='],
  [SyntaxKind.LessThanEqualsToken, '<'],
  [SyntaxKind.GreaterThanToken, '>='],
  [SyntaxKind.GreaterThanEqualsToken, '>'],
  [SyntaxKind.EqualsEqualsEqualsToken, '!=='],
  [SyntaxKind.ExclamationEqualsEqualsToken, '==='],
  [SyntaxKind.AmpersandAmpersandToken, '||'],
  [SyntaxKind.BarBarToken, '&&'],
  [SyntaxKind.QuestionQuestionToken, '&&'],
  [SyntaxKind.PlusToken, '-'],
  [SyntaxKind.MinusToken, '+'],
  [SyntaxKind.AsteriskToken, '/'],
]);
const METHODS = new Map([['some', 'every'], ['every', 'some'], ['min', 'max'], ['max', 'min'], ['startsWith', 'endsWith'], ['endsWith', 'startsWith']]);
/** Calls that log. A mutant never leaves out such a call. */
const LOGGING = /(^|\.)(logger|log|warn|debug|verbose|emitWarning)\b/;

/**
 * Lists every single change of a source file (a mutant) that a test should notice: another operator, condition, literal
 * or method, or a statement left out.
 *
 * @param {string} path the path of the file.
 * @param {string} text the file's text.
 * @returns {{ path: string, line: number, code: string, changed: string, from: number, to: number, original: string, replacement: string, site?: Site }[]}
 *   `code` is the text of the changed lines, and `changed` what becomes of it. `from` and `to` are the positions in the
 *   file's text between which `replacement` takes the place of `original`. `site` is missing if the code runs when its file is imported, and not again in each test.
 */
export function mutantsOf(path, text) {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const mutants = [];
  const add = (node, replacement, evaluated = node) => {
    const from = node.getStart(source);
    const to = node.getEnd();
    const line = source.getLineAndCharacterOfPosition(from).line + 1;
    const [begin, end] = [text.lastIndexOf('\n', from) + 1, text.indexOf('\n', to)];
    const code = text.slice(begin, end).trim();
    const changed = `${text.slice(begin, from)}${replacement}${text.slice(to, end)}`.trim();
    mutants.push({ path, line, code, changed, from, to, original: text.slice(from, to), replacement, site: siteOf(evaluated, source) });
  };
  const visit = (node) => {
    // Types, decorators and imports aren't changed, because they either don't run, or run only once at the start.
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isDecorator(node) || ts.isInterfaceDeclaration(node)) return;
    if (ts.isBinaryExpression(node)) changeOperator(node);
    if (ts.isIfStatement(node) || ts.isConditionalExpression(node)) {
      const condition = ts.isIfStatement(node) ? node.expression : node.condition;
      add(condition, 'true');
      add(condition, 'false');
    }
    if (node.kind === SyntaxKind.TrueKeyword) add(node, 'false');
    if (node.kind === SyntaxKind.FalseKeyword) add(node, 'true');
    if (ts.isPrefixUnaryExpression(node) && node.operator === SyntaxKind.ExclamationToken) add(node, node.operand.getText(source));
    if (ts.isNumericLiteral(node)) add(node, `(${node.getText(source)} + 1)`);
    if (ts.isStringLiteral(node) && node.text !== '' && !isName(node)) add(node, "''");
    if (ts.isPropertyAccessExpression(node) && METHODS.has(node.name.text) && ts.isCallExpression(node.parent)) add(node.name, METHODS.get(node.name.text), node.parent);
    if (ts.isExpressionStatement(node) && isEffect(node.expression)) add(node, ';');
    ts.forEachChild(node, visit);
  };
  const changeOperator = (expression) => {
    const { operatorToken, left, right } = expression;
    const replacement = OPERATORS.get(operatorToken.kind);
    const isText = [left, right].some((side) => ts.isStringLiteralLike(side) || ts.isTemplateExpression(side));
    if (replacement && !(isText && operatorToken.kind === SyntaxKind.PlusToken)) add(operatorToken, replacement, expression);
  };
  const isEffect = (expression) => {
    const inner = ts.isAwaitExpression(expression) || ts.isVoidExpression(expression) ? expression.expression : expression;
    return ts.isCallExpression(inner) && inner.expression.kind !== SyntaxKind.SuperKeyword && !LOGGING.test(inner.expression.getText(source));
  };
  visit(source);
  return mutants;
}

/** Whether a text only names something or is a message, which tests don't check. There is no mutant of such a text. */
function isName(node) {
  const { parent } = node;
  if (ts.isPropertyAssignment(parent) && parent.name === node) return true;
  if (ts.isExportDeclaration(parent) || ts.isLiteralTypeNode(parent)) return true;
  return (ts.isNewExpression(parent) || ts.isCallExpression(parent)) && /\s/.test(node.text);
}

const isStatic = (node) => node.modifiers?.some(({ kind }) => kind === SyntaxKind.StaticKeyword) ?? false;
const runsLater = (node) => ts.isFunctionLike(node) || (ts.isPropertyDeclaration(node) && !isStatic(node));
const isLink = (node) => ts.isCallExpression(node) || ts.isPropertyAccessExpression(node) || ts.isElementAccessExpression(node);

/**
 * Finds the expression or statement that runs a changed node.
 *
 * @typedef {{ from: number, to: number, isStatement: boolean }} Site
 * @returns {Site | undefined} undefined if it runs when its file is imported.
 */
function siteOf(node, source) {
  let site = node;
  // A link of a chain such as `a?.b().c` isn't an expression of its own.
  while (isLink(site.parent) && site.parent.expression === site) site = site.parent;
  const isKey = site.parent.name === site || site.parent.propertyName === site;
  if (isKey || !ts.findAncestor(site, runsLater)) return undefined;
  return { from: site.getStart(source), to: site.getEnd(), isStatement: ts.isExpressionStatement(site) };
}

/** Returns the text of a source so that the code of each mutant adds the mutant's number to `reachedMutants`. */
export function withProbes(text, mutants) {
  const insertions = mutants.filter(({ site }) => site).flatMap(({ number, site: { from, to, isStatement } }) => {
    const probe = `globalThis.reachedMutants?.add(${number})`;
    const [opening, closing] = isStatement ? [`{ ${probe}; `, ' }'] : [`(${probe}, `, ')'];
    // At one position, sites end before others begin, and the inner of two sites ends first and begins last.
    return [{ at: from, inserted: opening, rank: to - from }, { at: to, inserted: closing, rank: 2 * text.length - (to - from) }];
  });
  insertions.sort((one, other) => other.at - one.at || one.rank - other.rank);
  return insertions.reduce((changed, { at, inserted }) => changed.slice(0, at) + inserted + changed.slice(at), text);
}
