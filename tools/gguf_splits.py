#!/usr/bin/env python3
"""Makes tests/fixtures/gguf_splits.json: how each rule of tokenizer.ggml.pre cuts awkward texts.

Needs Hugging Face's tokenizers. The rules are written as in the models' own tokenizer.json, and apart from
runtime/text/formats/gguf_splits.cpp, so that a slip in either shows.

usage: gguf_splits.py
"""
import json
from pathlib import Path

from tokenizers import Regex, pre_tokenizers as pt
C="(?i:'s|'t|'re|'ve|'m|'ll|'d)"
W=r"[^\r\n\p{L}\p{N}]?\p{L}+"
M=r" ?[^\s\p{L}\p{N}]+[\r\n]*"
NL=r"\s*[\r\n]+"
S=r"\s+(?!\S)|\s+"
GPT2=r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
def tik(n, w=W, c=C, m=M, nl=NL, s=S): return "|".join(x for x in (c,w,n,m,nl,s) if x)
UP=r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"; LO=r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
def case(n, end, up=UP, lo=LO, m=r" ?[^\s\p{L}\p{N}]+[\r\n/]*", first=""):
    p=r"[^\r\n\p{L}\p{N}]?"
    return f"{first}{p}{up}*{lo}+{end}|{p}{up}+{lo}*{end}|{n}|{m}|{NL}|{S}"
GPT4O=case(r"\p{N}{1,3}", C+"?")
KU=UP[:-1]+r"&&[^\p{Han}]]"; KL=LO[:-1]+r"&&[^\p{Han}]]"
HANHANGUL="[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
KANA="[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
DS=r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"""
BLOOM=r" ?[^(\s|.,!?…。，、।۔،)]+"
LETTERS="A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
AFMOE="[一-鿿㐀-䶿豈-\ufaff぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+".replace("豈","\uf900")
rules={
 "default":[r"[\p{P}\$\+<=>\^~\|]+",GPT2,r"\p{N}+","[0-9][0-9][0-9]"],
 "gpt-2":[GPT2],
 "falcon":[r"[\p{P}\$\+<=>\^~\|`]+",GPT2,"[0-9][0-9][0-9]"],
 "starcoder":[r"\p{N}",GPT2],
 "chameleon":["<sentinel:[0-9]+>","(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",r"([\t\n]|    |  )",r"\p{N}",r"[\p{P}!-/:-@\[-`{-~]",GPT2],
 "bloom":[BLOOM],
 "viking":[BLOOM,r"\p{N}"],
 "llama-bpe":[tik(r"\p{N}{1,3}")],
 "jais-2":[tik(r"\p{N}{1,3}",s="|".join(r"\s{%s}(?!\S)"%n for n in "512 256 128 64 32 16 8 4 1,2".split())+r"|\s{1}")],
 "minicpm5":[r"\p{N}{1,3}",tik(r"\p{N}+")],
 "qwen2":[tik(r"\p{N}")],
 "laguna":[r"[^\n]+|[\n]+",tik(r"\p{N}")],
 "qwen35":[tik(r"\p{N}",w=r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",m=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*")],
 "ufakzeka":[tik(r"\p{N}",c="")],
 "seed-coder":[tik(r"\p{N}{1}",m=r" ?[^\s\p{L}\p{N}\r\n]+")],
 "bailingmoe":[tik(r"\p{N}",c="'(?i:[sdmt]|ll|ve|re)",w=r"[^\r\n\p{L}\p{N}]?+\p{L}+",m=r" ?[^\s\p{L}\p{N}]++[\r\n]*",nl=r"\s*[\r\n]")],
 "exaone-moe":[tik(r"\p{N}",w=r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",m=r" ?[^\s\p{L}\p{N}]+[\r\n/]?",nl=r"\s*[\r\n]")],
 "tekken":[case(r"\p{N}","")],
 "gpt-4o":[GPT4O],
 "tiny_aya":[r"\d{1,3}(?=(?:\d{3})*\b)",GPT4O],
 "youtu":["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",case(r"\p{N}",C+"?")],
 "kimi-k2":[case(r"\p{N}{1,3}",C+"?",KU,KL,M,r"[\p{Han}]+|")],
 "deepseek-llm":["[\r\n]",r"\s?["+LETTERS+"]+","\\s?[!-/:-~！-／：-～‘-‟\u3000-\u3002]+",r"\s+$",HANHANGUL,r"\p{N}"],
 "deepseek-coder":["[\r\n]",r"\s?\p{L}+",r"\s?\p{P}+",HANHANGUL,r"\p{N}"],
 "deepseek-v3":[r"\p{N}{1,3}",KANA,DS+r"[\r\n]*|"+NL+"|"+S],
 "spark2_5":[r"\p{N}{1,3}",KANA,DS+r"|[\r\n]|"+S,r"\p{N}"],
 "afmoe":[r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|\z))",AFMOE,DS+r"[\r\n]*|"+NL+"|"+S],
 "superbpe":[r"\p{N}+",r"(?=(\d{3})+(?!\d))"],
 "gemma4":[r"[^\n]+|[\n]+"],
 "whitespace":None,
}
texts=["", " ", "Hello, world!  Two  spaces.", "I'm SURE you'LL see it's 'Re' don'T we'd've O'Brien Türkiye'nin",
 "1 12 123 1234 12345 123456 1234567 3.14159 v2.0b10 12a345b 1,234,567 ٣٤٥٦ ½ Ⅻ ²³",
 "line\n\nline\r\n\r\n  indented\n\tTab\t\ttabs \n \n   end   ", "\n\n\n", "   \t  x", "a\n", "trailing  ",
 "東京は2024年、日本の首都です。中文文本，測試！한국어 텍스트 ㄱㄴ ไทยภาษา ລາວ ខ្មែរ မြန်မာ ㄅㄆ ｶﾞ",
 "e\u0301a\u0308 na\u00efve cafe\u0301s हिन्दी में लिखा বাংলা தமிழ் עִבְרִית العَرَبِيَّة، نعم۔",
 "😀👍🏽 👨‍👩‍👧 🇩🇪 ok🙂text", "camelCaseWords HTTPServer XMLHttpRequest iPhone ǅungla ʰmod ΑΒΓαβγ Привет Мир ႠႡ აბგ",
 "foo_bar(baz[0], \"x\"); // comment/path/to\n/* a */ #include <stdio.h>\nif (a<=b && c!=d) {\n    return a+b;\n}\n",
 "$100 + €50 = ~£120? 50% ^_^ `code` a|b <tag>…“quoted” ‘x’ —dash–", "A\u00a0B\u2003C\u3000D\u200bE\u2028F\x85G",
 "<sentinel:12> IMGIMGABCZ IMGIMGABCDEZ", "x"+" "*37+"y"+"\t"*5+"z"+" "*600+"w", "Ünïcödé ﬁ ＦＵＬＬ　ｗｉｄｔｈ！ 𝐀𝐁 𐐀𐐨 𠀀𠀁",
 "a b c d e ,f. g!h", "don't Don’t 'tis rock'n'roll ''s", "123abc 4567def 890"]
def cuts(name, text):
    if name=="whitespace": p=pt.Whitespace()
    else: p=pt.Sequence([pt.Split(Regex(r),"isolated") for r in rules[name]])
    return [s for s,_ in p.pre_tokenize_str(text)]
out={"texts":texts,"pieces":{}}
for name in rules:
    lists=[cuts(name,t) for t in texts]
    if name!="whitespace":
        for t,l in zip(texts,lists): assert "".join(l)==t,(name,t,l)
    # how many characters each piece has; for whitespace the pieces themselves
    out["pieces"][name]=lists if name=="whitespace" else [[len(x) for x in l] for l in lists]
with open(Path(__file__).parent.parent / "tests/fixtures/gguf_splits.json", "w") as f:
    f.write('{\n "texts": [\n  '+",\n  ".join(json.dumps(t,ensure_ascii=True) for t in texts)+'\n ],\n "pieces": {\n')
    f.write(",\n".join(f'  {json.dumps(n)}: {json.dumps(l,separators=(",",":"),ensure_ascii=True)}' for n,l in out["pieces"].items()))
    f.write("\n }\n}\n")
