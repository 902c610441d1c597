"""The other tasks: with the command's results."""
import array
import math
import pathlib
import wave

import fixtures
import pytest
from conftest import DATES

import pumice

TEXTS = ["w5 w6 w7", "w8", "w9 w10"]


def near(found, expected):
    return len(found) == len(expected) and all(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) for a, b in zip(found, expected))


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    numpy, image = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    pixels = (numpy.arange(32 * 32 * 3) ** 2 * 31 % 256).astype("uint8").reshape(32, 32, 3)
    path = tmp_path_factory.mktemp("pictures") / "a.png"
    image.fromarray(pixels).save(path)
    return path, pixels, image.open(path)


@pytest.fixture(scope="module")
def bert(made):
    return made("bert")


def test_embedder(bert, load, command, monkeypatch):
    printed = [each["embedding"] for each in command("embed", bert, *TEXTS, "--no-tune")]
    with pumice.Embedder(bert, **load) as embedder:
        vectors = embedder.embed(TEXTS)
        assert len(vectors) == 3 and all(map(near, vectors, printed))
        assert near(embedder.embed(TEXTS[1]), printed[1]) and embedder.dimensions == len(printed[0]) and embedder.cut == 0
        assert len(embedder.embed([])) == 0
        embedder.embed(["w5 " * 5000])
        assert embedder.cut == 1
        with pytest.raises(pumice.Error, match="texts"):
            embedder.embed_pictures(_one_pixel())
        # Without numpy: lists.
        monkeypatch.setattr(pumice.arrays, "numpy", None)
        lists = embedder.embed(TEXTS)
        assert isinstance(lists, list) and all(map(near, lists, printed))
    assert embedder.closed and embedder._model.closed


def _one_pixel():
    return [pytest.importorskip("numpy").zeros((2, 2, 3), "uint8")]


def test_reranker_and_classifier(made, load, command, picture):
    folder = made("deberta-v2")
    printed = command("rerank", folder, "--query", "w9", *TEXTS, "--no-tune")
    with pumice.Reranker(folder, **load) as reranker:
        assert near(reranker.score("w9", TEXTS), [each["score"] for each in printed])
        best = max(printed, key=lambda each: each["score"])
        ranked = reranker.rank("w9", TEXTS, top=2)
        assert len(ranked) == 2 and ranked[0].position == best["index"] and ranked[0].text == best["text"]
    printed, = command("classify", folder, TEXTS[0], "--no-tune")
    with pumice.Classifier(folder, **load) as classifier:
        found = classifier.classify(TEXTS[0])
        assert list(found) == [each["label"] for each in printed["labels"]]
        assert near(list(found.values()), [each["probability"] for each in printed["labels"]])
        assert [list(each)[0] for each in classifier.classify(TEXTS)][0] == list(found)[0] and set(classifier.labels) == set(found)
    folder = made("vit", lambda path: None)
    path, pixels, image = picture
    printed, = command("classify", folder, path, "--no-tune")
    with pumice.Classifier(folder, **load) as classifier:
        for each in (path, pixels, image, path.read_bytes()):
            found = classifier.classify(each)
            assert near(list(found.values())[:5], [each["probability"] for each in printed["labels"]])
        with pytest.raises(TypeError, match="apart"):
            classifier.classify(["a", pixels])


def test_clip(made, load):
    """Texts and pictures in one space, with labels of one's own."""
    pytest.importorskip("numpy")
    folder = made("clip", lambda path: None)
    with pytest.raises(pumice.Error):
        pumice.Classifier(folder, labels=["w5"], **load)  # it has no tokenizer
    with pumice.Encoder(folder, "image_embeds", pictures=True, **load) as encoder:
        assert abs((encoder.encode(_one_pixel()) ** 2).sum() - 1) < 1e-4


def test_filler(made, load, command):
    folder = made("bert-masked", lambda path: fixtures.write_words(path, 200, changed={4: "[MASK]"}))
    texts = ["w5 [MASK] w7", "[MASK] w9 [MASK] w8"]
    printed = [[[(word["word"], word["id"]) for word in gap] for gap in each["gaps"]]
               for each in command("fill", folder, *texts, "--top", "3", "--no-tune")]
    with pumice.Filler(folder, top=3, **load) as filler:
        found = filler.fill(texts)
        assert [[[(word.word, word.token) for word in gap] for gap in gaps] for gaps in found] == printed
        assert filler.fill(texts[0]) == found[0]


def test_index(bert, load, command, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("w5 w6\n\nw7 w8 w9\n")
    (folder / "b.txt").write_text("w15 w16\n")
    with pumice.TextIndex(bert, folder, index=tmp_path / "index", **load) as index:
        with pytest.raises(pumice.NotReady):
            index.search("w5")
        seen = []
        index.update(progress=lambda done, total: seen.append((done, total)))
        assert seen
        found = index.search("w5", top=2)
    printed = command("search", bert, folder, "w5", "--top", "2", "--index", tmp_path / "index", "--no-tune")
    assert [(each.file, each.line, each.text) for each in found] == [(each["file"], each["line"], each["text"]) for each in printed]
    assert near([each.score for each in found], [each["score"] for each in printed])
    (folder / "c.txt").write_text("w17\n")
    with pumice.TextIndex(bert, folder, index=tmp_path / "index", **load) as index:
        with pytest.raises(ZeroDivisionError):  # an exception of the callback's own
            index.update(progress=lambda done, total: 1 // 0)
        index.update(progress=False)


def test_translator(load, command):
    texts = ["le 3 mars 2021", "May 4, 1999"]
    printed = [each["text"] for each in command("translate", DATES, *texts, "--no-tune")]
    with pumice.Translator(DATES, **load) as translator:
        assert translator.translate(texts) == printed == ["2021-03-03", "1999-05-04"]
        assert translator.translate(texts[0]) == printed[0] and translator.translate([]) == []
    with pumice.Translator(DATES, beams=3, n_best=2, together=2, alignment=True, **load) as translator:
        first, second = translator.translations(texts)
        assert first.text == printed[0] and len(first.texts) == 2 and first.texts[0].score >= first.texts[1].score
        assert second.texts[0].alignment and not second.truncated


def test_captioner(made, load, command, picture):
    folder = made("vit-gpt2")
    path, pixels, image = picture
    printed, = command("caption", folder, path, "--no-tune", "-n", "6")
    with pumice.Captioner(folder, max_tokens=6, **load) as captioner:
        assert captioner.caption([pixels, image, path]) == [printed["text"]] * 3
        assert captioner.captions([pixels])[0][0].tokens[:6] == printed["tokens"][:6]


def test_transcriber(made, load, command, tmp_path):
    folder = made("wav2vec2", fixtures.write_letters)
    samples = array.array("h", [round(32767 * value) for value in fixtures.tone(16000)])
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(samples.tobytes())
    printed, = command("transcribe", folder, tmp_path / "a.wav", "--no-tune")
    floats = [value / 32768 for value in samples]
    with pumice.Transcriber(folder, **load) as transcriber:
        heard = []
        found = transcriber.transcribe(tmp_path / "a.wav", on_segment=heard.append)
        assert found.text == printed["text"] and found.segments == heard and found.language == ""
        assert (heard[0].start, heard[0].end) == (0, 1)
        assert transcriber.transcribe(floats, 16000).text == found.text
        numpy = pytest.importorskip("numpy")
        for sound in (numpy.array(floats), numpy.frombuffer(samples, "int16"), numpy.array([floats, floats]).T,
                      numpy.array([floats, floats])):
            assert transcriber.transcribe(sound, 16000).text == found.text
        with pytest.raises(ZeroDivisionError):
            transcriber.transcribe(floats, on_segment=lambda segment: 1 // 0)
        with pytest.raises(pumice.Unsupported):
            transcriber.detect(floats)
        with pytest.raises(pumice.InvalidFile, match="WAV"):
            (tmp_path / "b.wav").write_bytes(b"no sound")
            transcriber.transcribe(pathlib.Path(tmp_path / "b.wav"))


def test_encoder(bert, load):
    with pumice.Encoder(bert, "last_hidden_state", inputs=2, **load) as encoder:
        rows = encoder.encode([[1, 5, 6], "w7"])
        assert len(rows) >= 4 and len(rows[0]) == encoder.columns
