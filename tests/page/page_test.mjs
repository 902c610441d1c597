// Markdown of the page of `pumice serve`, on elements that only remember what was done to them: what a model writes
// becomes text and the elements below, and never HTML.
//   node page_test.mjs PAGE.html
import {readFileSync} from 'node:fs';
import assert from 'node:assert/strict';

const page = readFileSync(process.argv[2], 'utf8');
for (const way of ['innerHTML', 'outerHTML', 'insertAdjacentHTML', 'document.write', 'eval(', 'Function(', 'srcdoc', 'DOMParser', 'setHTML'])
  assert(!page.includes(way), way);
for (const way of [/\son\w+\s*=\s*["']/, /<(script|link|img|iframe)[^>]*\s(src|href)=/, /@import|url\(/])
  assert(!way.test(page), String(way));
const code = page.slice(page.indexOf('const made ='), page.indexOf('// ---- Conversations'));
assert(code.length > 1000);

class Element {
  constructor(name) { this.name = name; this.children = []; }
  append(...all) { this.children.push(...all.map(each => each instanceof Element ? each : String(each))); }
  set textContent(text) { this.children = [String(text)]; }
  replaceChildren() { this.children = []; }
  get text() { return this.children.map(each => each.text ?? each).join(''); }
  all() { return [this, ...this.children.flatMap(each => each instanceof Element ? each.all() : [])]; }
}
const {addMarkdown, growMarkdown} = new Function('document', code + '; return {addMarkdown, growMarkdown};')({createElement: name => new Element(name)});
const shown = text => { const body = new Element('div'); addMarkdown(body, text); return body; };

const allowed = new Set(['div', 'p', 'a', 'code', 'pre', 'strong', 'em', 'del', 'ul', 'ol', 'li', 'table', 'tr', 'th', 'td', 'blockquote', 'hr',
  'h3', 'h4', 'h5', 'h6']);
const harmless = text => {
  const body = shown(text);
  for (const element of body.all()) {
    assert(allowed.has(element.name), `${element.name} of ${text}`);
    if (element.href !== undefined) assert(/^(https?:|mailto:)/.test(element.href), element.href);
    for (const member of Object.keys(element)) assert(!member.startsWith('on'), member);
  }
  return body;
};
for (const text of [
  '<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '[here](javascript:alert(1))', '[here](JaVaScRiPt:alert(1))',
  '[here](data:text/html,<script>alert(1)</script>)', '[here](vbscript:x)', '[here](\u0001javascript:alert(1))', '[here](java\tscript:alert(1))',
  '[here](https://example.com" onclick="alert(1))', '**<b onclick=alert(1)>**', '`<script>`', '```html\n<script>alert(1)</script>\n```',
  '# <svg/onload=alert(1)>', '| <script> | b |\n|---|---|\n| <iframe> | c |', '> <script>alert(1)</script>', '- [x](javascript:alert(1))',
  '![x](javascript:alert(1))', '<a href="javascript:alert(1)">x</a>', '[__proto__](https://example.com)', '[a](//example.com)', '[a](/etc/passwd)'])
  harmless(text);
assert.equal(shown('<script>alert(1)</script>').text, '<script>alert(1)</script>');
assert.equal(shown('[here](javascript:alert(1))').all().filter(each => each.name === 'a').length, 0);

// Seen as it is meant.
const names = text => shown(text).all().slice(1).map(each => each.name).join(' ');
assert.equal(names('a **b** *c* `d` ~~e~~'), 'p strong em code del');
assert.equal(names('# t\n\ntext\n\n- a\n- b\n\n1. c'), 'h3 p ul li li ol li');
assert.equal(names('- a\n  - b\n    1. c\n- d'), 'ul li ul li ol li li');
assert.equal(shown('3. a\n   more\n4. b').all()[1].start, 3);
assert.equal(names('3. a\n   more\n4. b'), 'ol li li');
assert.equal(names('```js\nx < 1\n```'), 'pre code');
assert.equal(shown('```js\nx < 1\n```').text, 'x < 1');
assert.equal(names('| a | b |\n|---|---|\n| c | d |'), 'table tr th th tr td td');
assert.equal(shown('[a](https://example.com/b)').all().at(-1).href, 'https://example.com/b');
assert.equal(shown('see https://example.com/b.').all().at(-1).href, 'https://example.com/b');

// Whatever comes, all of it ends, soon.
let seed = 1;
const random = most => (seed = (seed * 48271) % 2147483647) % most;
const pieces = ['*', '**', '`', '```', '\n', '\n\n', '- ', '  - ', '    1. ', '1. ', '# ', '> ', '|', '---', '[', '](', ')', '<', 'a', ' ', 'https://x.y', '~~'];
for (let i = 0; i < 3000; ++i) {
  let text = '';
  for (let j = random(60); j > 0; --j) text += pieces[random(pieces.length)];
  const whole = harmless(text);
  // A text that grows ends as the whole one.
  const settled = new Element('div'), growing = new Element('div');
  for (let end = 0; end < text.length; end += 1 + random(20)) growMarkdown(settled, growing, text.slice(0, end));
  growMarkdown(settled, growing, text);
  assert.deepEqual([...settled.children, ...growing.children], whole.children, JSON.stringify(text));
}
const start = Date.now();
for (const text of ['*'.repeat(20000), '`'.repeat(20000), '['.repeat(20000), '**a'.repeat(5000), '> '.repeat(10000), '|'.repeat(20000), 'a*'.repeat(10000),
  Array.from({length: 500}, (_, i) => ' '.repeat(2 * i) + '- a').join('\n')])
  harmless(text);
assert(Date.now() - start < 20000, `${Date.now() - start} ms`);
console.log('ok');
