#!/usr/bin/env python3
"""The page of `pumice serve` in Debian's Chromium: what a person does with it, by mouse and by keys, and what axe finds.

    browser_test.py PUMICE [--axe FILE] [--pictures FOLDER]

PUMICE is the built command. FILE is axe-core's axe.min.js (default: the environment's PUMICE_AXE, or node_modules/axe-core here:
`npm install axe-core`). Needs Python's playwright and /usr/bin/chromium; ends with 77 where something is missing. The chat is the
real one, of models/pretrained/chat-2m.gguf; what no included model does (calls of tools, speech, vectors) is answered by this script.
"""
import argparse, base64, io, json, math, os, re, struct, subprocess, sys, wave, zlib
from pathlib import Path

root = Path(__file__).resolve().parents[2]
arguments = argparse.ArgumentParser(description='The page in Chromium')
arguments.add_argument('pumice')
arguments.add_argument('--axe', default=os.environ.get('PUMICE_AXE', 'node_modules/axe-core/axe.min.js'))
arguments.add_argument('--chromium', default='/usr/bin/chromium')
arguments.add_argument('--pictures', help='write screenshots into this folder')
options = arguments.parse_args()


def skip(why):
    print('skipped:', why)
    sys.exit(77)


try:
    from playwright.sync_api import sync_playwright
except ImportError:
    skip('no playwright: pip install playwright')
for needed in options.chromium, options.axe:
    if not os.path.exists(needed):
        skip('no ' + needed)
axe = Path(options.axe).read_text()


def check(fine, *what):
    if not fine:
        raise AssertionError(' '.join(map(str, what)))


def png(width, height):
    rows = b''.join(b'\0' + bytes(sum(([x * 255 // width, y * 255 // height, 128] for x in range(width)), [])) for y in range(height))
    chunk = lambda kind, data: struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')


def tone(seconds, rate=44100):
    made = io.BytesIO()
    with wave.open(made, 'wb') as file:
        file.setnchannels(2), file.setsampwidth(2), file.setframerate(rate)
        file.writeframes(b''.join(struct.pack('<hh', *[int(9000 * math.sin(i / 20))] * 2) for i in range(int(seconds * rate))))
    return made.getvalue()


def events(*deltas):
    lines = [{'choices': [{'index': 0, 'delta': delta}]} for delta in deltas] + [{'choices': [], 'usage': {'completion_tokens': 42}}]
    return ''.join(f'data: {json.dumps(each)}\n\n' for each in lines) + 'data: [DONE]\n\n'


class Page:
    def __init__(self, browser, address, **settings):
        self.context = browser.new_context(**{'viewport': {'width': 1100, 'height': 760}, **settings})
        self.page = self.context.new_page()
        self.address, self.faults, self.asked = address, [], []
        self.page.on('pageerror', lambda error: self.faults.append(str(error)))
        # A refused request is a part of some checks; anything else on the console is a fault.
        self.page.on('console', lambda message: message.type == 'error' and 'Failed to load resource' not in message.text and self.faults.append(message.text))
        self.page.on('request', lambda request: self.asked.append(request))
        self.page.goto(address)
        self.until('by("model").options.length || by("state").textContent')

    def until(self, condition):  # Playwright's own way needs an eval(), which the page forbids
        for _ in range(1200):
            if self.page.evaluate(f'Boolean({condition})'):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError('never: ' + condition)

    def ask(self, text):
        self.page.fill('#question', text)
        self.page.keyboard.press('Enter')

    def answered(self):
        self.until('!running && chat.messages.at(-1)?.role === "assistant"')
        return self.page.evaluate('chat.messages.at(-1)')

    def sent(self, path):  # the newest request's JSON
        return json.loads([each for each in self.asked if each.url.endswith(path)][-1].post_data)

    def stub(self, path, make, kind='application/json'):
        self.page.route('**' + path, lambda route: route.fulfill(status=200, content_type=kind, body=make(route.request)))

    def accessible(self, what):
        self.page.evaluate(axe)
        found = self.page.evaluate('axe.run().then(all => all.violations)')
        check(not found, what, json.dumps([[each['id'], each['help'], [node['html'][:200] for node in each['nodes'][:3]]] for each in found], indent=1))

    def fits(self, what):
        wide = self.page.evaluate('Math.max(...[document.documentElement, by("log"), by("settings"), ...tabs.map(by)].map(each => each.scrollWidth - each.clientWidth))')
        check(wide <= 0, what, 'scrolls sideways by', wide)

    def picture(self, name):
        if options.pictures:
            self.page.mouse.move(0, 0)
            self.page.wait_for_timeout(200)
            self.page.screenshot(path=f'{options.pictures}/{name}.png')

    def close(self):
        check(not self.faults, 'faults on the page:', self.faults)
        for request in self.asked:
            check(request.url.startswith((self.address, 'data:', 'blob:')), 'asked elsewhere:', request.url)
        self.context.close()


def chat(browser, address):
    it = Page(browser, address)
    page = it.page
    it.accessible('an empty conversation')
    page.fill('#question', 'What does a cow say?')
    page.keyboard.press('Shift+Enter')
    check(page.input_value('#question').endswith('\n'), 'Shift and Enter begins no line')
    page.keyboard.press('Backspace')
    page.keyboard.press('Enter')
    first = it.answered()
    check(first['content'] and 'tokens/s' in first['note'], first)
    check(page.evaluate('document.activeElement.id') == 'question', 'the question has no focus after an answer')
    check(first['content'] in page.text_content('#spoken'), 'a screen reader hears no answer')
    it.accessible('a conversation')

    page.get_by_role('button', name='Regenerate').click()
    it.answered()
    check(page.evaluate('chat.messages.length') == 2, 'regenerated beside the old answer')
    page.get_by_role('button', name='Edit').click()
    page.keyboard.press('Escape')
    check(page.input_value('#question') == '' and page.evaluate('chat.messages.length') == 2, 'leaving an edit changed something')
    page.get_by_role('button', name='Edit').click()
    it.ask('What does a dog say?')
    it.answered()
    check(page.evaluate('chat.messages.map(each => each.content)[0]') == 'What does a dog say?', 'not edited')
    check(page.evaluate('chat.messages.length') == 2, 'an edit leaves what came after')

    # Sampling, the system prompt and a schema, which is checked as it is typed.
    page.click('#options')
    page.fill('#temperature', '0')
    page.fill('#seed', '7')
    page.fill('#system', 'You are brief.')
    page.fill('#schema', '{"type": "object",')
    check('not JSON' in page.text_content('#schema-said') and page.get_attribute('#schema', 'aria-invalid') == 'true', 'broken JSON passes')
    it.accessible('settings')
    page.fill('#schema', '{"type": "objekt"}')
    check('objekt' in page.text_content('#schema-said'), 'a wrong type passes')
    page.fill('#schema', '{"type": "object", "properties": {"a": {}}, "required": ["b"]}')
    check('b is required' in page.text_content('#schema-said'), 'a missing property passes')
    page.fill('#schema', json.dumps({'type': 'object', 'properties': {'loud': {'type': 'boolean'}}, 'required': ['loud'], 'additionalProperties': False}))
    check(page.get_attribute('#schema', 'aria-invalid') == 'false', page.text_content('#schema-said'))
    page.get_by_role('button', name='Done').click()
    it.ask('Is a lion loud?')
    last = it.answered()
    check(isinstance(json.loads(last['content'])['loud'], bool), last)
    body = it.sent('/v1/chat/completions')
    check(body['temperature'] == 0 and body['seed'] == 7 and body['messages'][0] == {'role': 'system', 'content': 'You are brief.'}, body)
    check(body['response_format']['type'] == 'json_schema', body)

    # Several conversations, which outlive the page.
    page.click('#new')
    it.ask('Hello')
    it.answered()
    page.reload()
    it.until('chats.length === 3')
    page.get_by_role('button', name='What does a dog say?', exact=True).click()
    check(page.evaluate('chat.messages.length') == 4, 'a conversation was not kept')
    check(page.input_value('#seed') == '7', 'settings were not kept')
    page.get_by_role('button', name='Delete Hello').click()
    it.until('!by("chats").textContent.includes("Hello")')
    page.reload()
    it.until('chats.length === 2')

    # Models that cannot look say so, and stopping stops.
    page.evaluate('for (const each of fields) by(each).value = ""')
    page.set_input_files('#attach', {'name': 'red.png', 'mimeType': 'image/png', 'buffer': png(16, 16)})
    page.wait_for_selector('.part')
    it.ask('What is this?')
    check(it.answered().get('error'), 'a picture was taken by a model without eyes')
    it.ask('What does a cow say?')
    check(not it.answered().get('error'), 'a picture that was refused stays in the conversation')
    page.click('#new')
    it.ask('Tell me a story.')
    it.until('running && chat.messages.at(-1).content.length > 0')
    page.keyboard.press('Escape')
    last = it.answered()
    if last.get('stopped'):
        page.get_by_role('button', name='Go on').click()
        more = it.answered()
        check(more.get('error') or more['content'].startswith(last['content']), more)
    it.close()


HARM = '<script>alert(1)</script> <img src=x onerror=alert(1)> [a link](javascript:alert(1)) ![x](javascript:alert(1)) [good](https://example.com)'
ANSWER = '''The sky is blue because **air scatters short waves more** than long ones.

1. Sunlight has all colours.
2. Air bends blue aside:
   - violet even more, but
   - our eyes see less of it.

| Colour | Wave | Scattered |
|---|---|---|
| blue | 450 nm | 4.4 |
| red | 650 nm | 1 |

```python
def scattered(wave):
    return (650 / wave) ** 4
```
'''


def stubbed(browser, address):
    it = Page(browser, address)
    page = it.page
    page.on('dialog', lambda dialog: it.faults.append('a dialog: ' + dialog.message))
    answers = []
    it.stub('/v1/chat/completions', lambda request: answers.pop(0), 'text/event-stream')

    answers.append(events({'reasoning_content': HARM}, {'content': HARM[:70]}, {'content': HARM[70:]}))
    it.ask(HARM)
    it.answered()
    page.wait_for_timeout(200)
    check(page.locator('#log script, #log img').count() == 0, 'an element of the model')
    check(page.evaluate('[...document.querySelectorAll("#log a")].every(each => each.protocol === "https:")'), 'a bad link')
    check('<script>alert(1)</script>' in page.text_content('#log .user'), 'a question is not shown as it is')
    check(not page.locator('details.thought').evaluate('element => element.open'), 'thoughts are not folded')
    page.get_by_text('Thoughts').click()
    check(page.locator('details.thought').evaluate('element => element.open'), 'thoughts do not unfold')

    # Right to left.
    answers.append(events({'content': 'مرحبا، كيف حالك؟'}))
    it.ask('שלום')
    it.answered()
    check(page.locator('#log article').last.locator('p').first.evaluate('element => getComputedStyle(element).direction') == 'rtl', 'Arabic from the left')
    it.accessible('answers')

    # Calls of tools, and what a person says they gave.
    page.click('#options')
    page.fill('#tools', '{}')
    check('Expected a list' in page.text_content('#tools-said'), 'wrong tools pass')
    page.fill('#tools', json.dumps([{'type': 'function', 'function': {'name': 'weather', 'parameters': {'type': 'object'}}}]))
    page.keyboard.press('Escape')
    call = lambda given, **more: {'tool_calls': [{'index': 0, **more, 'function': {'arguments': given, **({'name': 'weather'} if more else {})}}]}
    answers.append(events(call('', id='c1', type='function'), call('{"city": '), call('"Bonn"}')))
    it.ask('How is the weather in Bonn?')
    check(it.answered()['calls'] == [{'id': 'c1', 'name': 'weather', 'arguments': '{"city": "Bonn"}'}], 'a call is not put together')
    it.accessible('a call')
    answers.append(events({'content': 'It rains.'}))
    page.fill('.results textarea', '{"rain": true}')
    page.get_by_role('button', name='Answer with this').click()
    it.until('chat.messages.at(-1).content === "It rains."')
    check(it.sent('/v1/chat/completions')['messages'][-1] == {'role': 'tool', 'tool_call_id': 'c1', 'content': '{"rain": true}'}, 'a result is not sent')

    # Pictures and sounds, from files and from the microphone.
    page.click('#new')
    page.set_input_files('#attach', [{'name': 'big.png', 'mimeType': 'image/png', 'buffer': png(2000, 4)},
                                     {'name': 'tone.wav', 'mimeType': 'audio/wav', 'buffer': tone(.5)}])
    it.until('parts.length === 2')
    page.click('#record')
    page.wait_for_timeout(700)
    page.click('#record')
    it.until('parts.length === 3')
    it.accessible('parts of a question')
    answers.append(events({'content': 'A tone.'}))
    it.ask('What are these?')
    it.answered()
    sent = it.sent('/v1/chat/completions')['messages'][-1]['content']
    check([each['type'] for each in sent] == ['text', 'image_url', 'input_audio', 'input_audio'], sent)
    check(sent[1]['image_url']['url'].startswith('data:image/jpeg;base64,'), 'a large picture was not made smaller')
    with wave.open(io.BytesIO(base64.b64decode(sent[2]['input_audio']['data']))) as sound:
        check((sound.getnchannels(), sound.getframerate(), abs(sound.getnframes() - 8000) < 50) == (1, 16000, True), sound.getparams())

    answers.append(events({'reasoning_content': 'Rayleigh scattering.'}, {'content': ANSWER}))
    page.click('#new')
    it.ask('Why is the sky blue?')
    it.answered()
    it.accessible('Markdown')
    it.close()


MODELS = {'data': [{'id': name, 'kind': kind} for name, kind in
                   [('chat-2m', 'text'), ('opus-de-en', 'translation'), ('whisper', 'speech'), ('minilm', 'vectors')]] + [
                       {'id': 'outetts', 'kind': 'voice', 'voices': ['default', 'fox']}]}


def other_tabs(browser, address, scheme):
    it = Page(browser, address, color_scheme=scheme)
    page = it.page
    it.stub('/v1/models', lambda request: json.dumps(MODELS))
    it.stub('/translate', lambda request: json.dumps({'translations': [{
        'source': 'Die kleine Katze schläft heute.', 'text': 'The little cat sleeps today.', 'tokens': list(range(7)), 'alignment': [[0, 0], [1, 1], [2, 2], [3, 3], [4, 4]]}],
        'usage': {'completion_tokens': 7}}))
    it.stub('/v1/audio/transcriptions', lambda request: ' The tide comes in twice a day.\n', 'text/plain')
    it.stub('/v1/audio/speech', lambda request: tone(1.5), 'audio/wav')
    near = lambda text: [1.0 if 'moon' in text or 'tide' in text else .1, 1.0 if 'bread' in text else .2, len(text) / 90]
    it.stub('/v1/embeddings', lambda request: json.dumps({'data': [{'index': i, 'embedding': near(text)} for i, text in enumerate(json.loads(request.post_data)['input'])]}))
    page.reload()
    it.until('models.length === 5')

    page.focus('#tab-chat')
    page.keyboard.press('ArrowRight')
    check(page.evaluate('document.activeElement.id') == 'tab-translate' and page.is_visible('#translate'), 'tabs do not follow arrows')
    page.fill('#source', 'Die kleine Katze schläft heute.')
    page.fill('#to', 'English')
    page.get_by_role('button', name='Translate', exact=True).click()
    page.wait_for_selector('#map table')
    check(page.text_content('#target') == 'The little cat sleeps today.', page.text_content('#target'))
    check(it.sent('/translate') == {'model': 'opus-de-en', 'text': 'Die kleine Katze schläft heute.', 'alignment': True, 'target': 'English'}, it.sent('/translate'))
    check(page.locator('#map td:text("●")').count() == 5 and '7 tokens' in page.text_content('#translate .said'), 'no map of the attention')
    it.accessible('translate, ' + scheme)
    it.picture('translate-' + scheme)
    page.check('#sentences')
    page.keyboard.press('Enter')
    it.until('document.querySelector("#translate .main").textContent === "Translate"')
    check(it.sent('/translate')['sentences'], 'sentences are not asked for')

    page.click('#tab-transcribe')
    page.get_by_role('button', name='Transcribe', exact=True).click()
    page.wait_for_selector('#transcribe .said.error')
    page.set_input_files('#sound', {'name': 'tides.wav', 'mimeType': 'audio/wav', 'buffer': tone(1.5)})
    it.until('sound')
    page.get_by_role('button', name='Transcribe', exact=True).click()
    it.until('by("heard").textContent')
    check(page.text_content('#heard') == 'The tide comes in twice a day.', page.text_content('#heard'))
    page.evaluate('sound = null')
    page.click('#microphone')
    page.wait_for_timeout(500)
    it.accessible('recording, ' + scheme)
    page.click('#microphone')
    it.until('sound')
    it.accessible('transcribe, ' + scheme)
    it.picture('transcribe-' + scheme)

    page.click('#tab-speak')
    page.get_by_role('button', name='Speak', exact=True).click()
    page.wait_for_selector('#speak .said.error')
    page.fill('#line', 'Good morning.')
    page.select_option('#voice', 'fox')
    page.get_by_role('button', name='Speak', exact=True).click()
    it.until('by("player").duration > 1.4 && by("player").duration < 1.6')
    check(it.sent('/v1/audio/speech') == {'model': 'outetts', 'input': 'Good morning.', 'voice': 'fox', 'response_format': 'wav'}, it.sent('/v1/audio/speech'))
    it.accessible('speak, ' + scheme)

    page.click('#tab-search')
    page.fill('#texts', 'Knead the bread for ten minutes.\nThe moon pulls the sea towards it.\nA tram runs every six minutes.\nHigh tide is at noon.')
    page.fill('#query', 'Why do tides follow the moon?')
    page.keyboard.press('Enter')
    page.wait_for_selector('#hits li')
    check('moon' in page.text_content('#hits li:first-child') and page.locator('#hits li').count() == 4, page.text_content('#hits'))
    it.accessible('search, ' + scheme)
    it.picture('search-' + scheme)
    it.close()


def none_fit(browser, address):
    it = Page(browser, address)
    for name in 'translate', 'transcribe', 'speak', 'search':
        it.page.click('#tab-' + name)
        check(it.page.text_content(f'#{name} .notice').startswith('None of this server'), name, 'does not say that it has no model')
        check(not it.page.locator(f'#{name} :is(button, textarea, input, select):visible').count(), name, 'has controls that do nothing')
        it.accessible(name + ' without a model')
    it.close()


def locked(browser, address):
    it = Page(browser, address)
    page = it.page
    fits = lambda request: request.headers.get('authorization') == 'Bearer secret'
    page.route('**/v1/models', lambda route: route.continue_() if fits(route.request) else route.fulfill(
        status=401, content_type='application/json', body=json.dumps({'error': {'message': 'a key is needed'}})))
    page.reload()
    it.until('by("settings").open')
    check(page.text_content('#key-said') == 'a key is needed' and page.evaluate('document.activeElement.id') == 'key', 'no word of a key')
    it.accessible('a missing key')
    page.keyboard.type('secret')
    page.keyboard.press('Enter')
    it.until('!by("settings").open && by("model").options.length')
    it.ask('What does a cow say?')
    check(not it.answered().get('error'), 'no answer with a key')
    check(not page.evaluate('JSON.stringify(localStorage)').count('secret'), 'a key is kept')
    it.close()


def phone(browser, address, scheme):
    it = Page(browser, address, viewport={'width': 360, 'height': 700}, color_scheme=scheme, has_touch=True, device_scale_factor=1.5)
    page = it.page
    it.stub('/v1/chat/completions', lambda request: events({'reasoning_content': 'Rayleigh scattering.'}, {'content': ANSWER + '\n' + 'x' * 300}), 'text/event-stream')
    it.ask('Why is the sky blue?')
    it.answered()
    it.fits('a conversation')
    it.accessible('a phone, ' + scheme)
    page.evaluate('chat.messages[1].content = chat.messages[1].content.replace(/x+$/, ""); show(); by("log").scrollTop = 0')
    it.picture('phone-' + scheme)
    page.click('#menu')
    check(page.is_visible('#new'), 'no conversations on a phone')
    it.fits('conversations')
    it.accessible('conversations on a phone')
    page.keyboard.press('Escape')
    page.click('#options')
    it.fits('settings')
    page.keyboard.press('Escape')
    for name in 'translate', 'transcribe', 'speak', 'search':
        page.click('#tab-' + name)
        it.fits(name)
    it.close()


def pictures(browser, address, scheme):
    it = Page(browser, address, color_scheme=scheme)
    it.stub('/v1/chat/completions', lambda request: events({'reasoning_content': 'Rayleigh scattering.'}, {'content': ANSWER}), 'text/event-stream')
    for question in 'How do tides work?', 'A recipe for bread', 'Why is the sky blue?':
        it.page.click('#new')
        it.ask(question)
        it.answered()
    it.page.evaluate('chat.messages.at(-1).note = "142 tokens · 51.3 tokens/s · first after 0.21 s"; show()')
    it.accessible('chat, ' + scheme)
    it.picture('chat-' + scheme)
    it.page.click('#options')
    it.page.click('#example')
    it.accessible('settings, ' + scheme)
    it.picture('settings-' + scheme)
    it.close()


models = [str(root / 'models/pretrained/chat-2m.gguf')]
server = subprocess.Popen([options.pumice, 'serve', *models, '--port', '0'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    address = next((found[0] for line in server.stdout if (found := re.search(r'http://[\d.]+:\d+', line))), None)
    check(address, 'the server did not start')
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'])
        for test, *more in [(chat,), (stubbed,), (none_fit,), (locked,), *[(test, scheme) for scheme in ('light', 'dark') for test in (other_tabs, phone, pictures)]]:
            test(browser, address, *more)
            print('passed:', test.__name__, *more, flush=True)
        browser.close()
finally:
    server.terminate()
    server.wait(60)
