#!/usr/bin/env bash
# Makes the fuzz targets' seeds out of valid files: small ones written here, the shipped models and the fixtures.
#   tests/fuzz/seeds.sh CORPUS      fills CORPUS/{gguf,ggml,safetensors,config,state,device_file,tokenizer,media,template,torch,form,multipart}/seeds
set -euo pipefail
corpus=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$corpus"/{gguf,ggml,safetensors,config,state,device_file,tokenizer,media,template,torch,form,multipart}/seeds

number() {  # BYTES VALUE, little-endian
  local i
  for ((i = 0; i < $1; i++)); do printf "\\x$(printf %02x $((($2 >> (8 * i)) & 255)))"; done
}
text() { number 8 ${#1}; printf %s "$1"; }

small_gguf() {  # VERSION
  printf GGUF; number 4 "$1"; number 8 2; number 8 9
  text general.architecture; number 4 8; text llama
  text llama.block_count; number 4 4; number 4 1
  text llama.rope.freq_base; number 4 6; number 4 $((0x461c4000))
  text tokenizer.ggml.model; number 4 8; text llama
  text tokenizer.ggml.tokens; number 4 9; number 4 8; number 8 3; text '<unk>'; text '<0x0A>'; text 'a'
  text tokenizer.ggml.scores; number 4 9; number 4 6; number 8 3; number 4 0; number 4 0; number 4 $((0xbf800000))
  text tokenizer.ggml.token_type; number 4 9; number 4 5; number 8 3; number 4 2; number 4 6; number 4 1
  text a.flag; number 4 7; number 1 1
  text general.alignment; number 4 4; number 4 32
  text token_embd.weight; number 4 2; number 8 4; number 8 3; number 4 0; number 8 0
  text output_norm.weight; number 4 1; number 8 32; number 4 8; number 8 64
}
pad() {  # FILE BYTES: zeros up to a multiple of 32, and then BYTES more
  local size; size=$(stat -c %s "$1")
  head -c $(((32 - size % 32) % 32 + $2)) /dev/zero >>"$1"
}
for version in 2 3; do
  file=$corpus/gguf/seeds/small-v$version.gguf
  small_gguf $version >"$file"
  pad "$file" 128
done

ggml() {  # a whisper.cpp file: two words, a language, a second of sound, one band, two tensors
  printf lmgg
  local size; for size in 62 50 2 1 1 8 2 1 1 1 0 1 201; do number 4 "$size"; done
  head -c 804 /dev/zero
  number 4 2; number 4 1; printf a; number 4 2; printf ' b'
  local side; for side in encoder decoder; do
    number 4 2; number 4 29; number 4 0; number 4 2; number 4 2; printf '%s.blocks.0.mlp.0.weight' "$side"; head -c 16 /dev/zero
  done
}
ggml >"$corpus/ggml/seeds/small"

safetensors() {  # HEADER DATA_BYTES
  number 8 ${#1}; printf %s "$1"; head -c "$2" /dev/zero
}
safetensors '{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}}' \
  32 >"$corpus/safetensors/seeds/two"
safetensors '{}' 0 >"$corpus/safetensors/seeds/none"

cp tests/fixtures/torch/* "$corpus/torch/seeds/"

state() {  # two tokens and one layer with 16 bytes; the target makes size and checksum right
  printf PUMICEKV; number 4 1; number 8 0
  number 8 7; number 4 1; number 4 2; number 4 2                          # model, cache type, cached tokens, written end
  local i; for ((i = 0; i < 9; i++)); do number 4 "$i"; done               # sampling's numbers
  number 4 1; number 4 3; number 4 0; number 4 1; number 4 2; number 4 0; number 8 5  # a bias, a stop, log-probabilities, seed
  number 4 2; number 4 3; number 4 4                                      # tokens
  number 4 1; number 4 1; number 4 1; number 4 32; number 8 16            # layers
  head -c 24 /dev/zero
}
state >"$corpus/state/seeds/small"

device_file() { # two facts and three bytes; the target puts identity and checksum around them
  number 8 2; text ceilings; text '1e9 1e9'; text 'uniform loads'; text fast; text abc
}
device_file >"$corpus/device_file/seeds/small"

cat >"$corpus/config/seeds/small.json" <<'JSON'
{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,
"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"vocab_size":512,"max_position_embeddings":256,"rms_norm_eps":1e-5,
"rope_theta":10000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
"original_max_position_embeddings":64},"tie_word_embeddings":true,"attention_bias":false,"hidden_act":"silu","eos_token_id":[1,2]}
JSON
cat >"$corpus/tokenizer/seeds/small.json" <<'JSON'
{"version":"1.0","added_tokens":[{"id":0,"content":"<s>","special":true,"lstrip":false,"rstrip":false,"normalized":false}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},{"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]},
"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},
"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","byte_fallback":true,"unk_token":null,
"vocab":{"<s>":0,"a":1,"b":2,"ab":3,"<0x0A>":4},"merges":["a b"]}}
JSON

wav() {  # FORMAT BITS DATA: two channels at 16 kHz
  printf 'RIFF\0\0\0\0WAVELIST'; number 4 3; printf 'abc\0fmt '
  number 4 16; number 2 "$1"; number 2 2; number 4 16000; number 4 $((16000 * $2 / 4)); number 2 $(($2 / 4)); number 2 "$2"
  printf data; number 4 ${#3}; printf %s "$3"
}
wav 1 8 abcdefgh >"$corpus/media/seeds/pcm8.wav"
wav 1 16 abcdefghijkl >"$corpus/media/seeds/pcm16.wav"
wav 1 24 abcdefghijkl >"$corpus/media/seeds/pcm24.wav"
wav 3 32 AAAABBBBAAAABBBB >"$corpus/media/seeds/float.wav"
# A page that begins and ends a stream of one packet.
{ printf 'OggS\0\6'; number 8 0; number 4 1; number 4 0; number 4 0; printf '\1\10OpusHead'; } >"$corpus/media/seeds/opus.ogg"
# Five by three pixels in colours, and with a palette; the same as a JPEG, in one scan and in many; a sound of two channels.
base64 -d >"$corpus/media/seeds/colours.png" <<<"iVBORw0KGgoAAAANSUhEUgAAAAUAAAADCAIAAADUVFKvAAAAG0lEQVR4nGNkYGAwQkIsDAEMDAwicATna0AQADccAk6FyYYHAAAAAElFTkSuQmCC"
base64 -d >"$corpus/media/seeds/palette.png" <<<"iVBORw0KGgoAAAANSUhEUgAAAAUAAAADBAMAAACpGNjLAAAAGFBMVEWWoHivUEZkUCgZoBQZUAqvAABkAAAZAADsCyp4AAAAAnRSTlP/AOW3MEoAAAAUSURBVHicYyhP
DWBwURRgMGZgAAAPdgHVC19YcQAAAABJRU5ErkJggg=="
base64 -d >"$corpus/media/seeds/one.jpg" <<<"/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6T/2wBDARwe
HigjKE4rK06kbl1upKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKT/wAARCAADAAUDASIAAhEBAxEB/8QAFAABAAAAAAAAAAAA
AAAAAAAAAP/EABkQAQACAwAAAAAAAAAAAAAAAAADBAECM//EABQBAQAAAAAAAAAAAAAAAAAAAAP/xAAaEQACAgMAAAAAAAAAAAAAAAAAAgEDEiEx/9oADAMBAAIRAxEA
PwBUqwZi5agDXglTthGz/9k="
base64 -d >"$corpus/media/seeds/many.jpg" <<<"/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6T/2wBDARwe
HigjKE4rK06kbl1upKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKT/wgARCAADAAUDASIAAhEBAxEB/8QAFAABAAAAAAAAAAAA
AAAAAAAAAP/EABQBAQAAAAAAAAAAAAAAAAAAAAL/2gAMAwEAAhADEAAAAQK//8QAFhABAQEAAAAAAAAAAAAAAAAAAgER/9oACAEBAAEFAiZn/8QAFxEBAAMAAAAAAAAA
AAAAAAAAAQACEf/aAAgBAwEBPwGq5P/EABURAQEAAAAAAAAAAAAAAAAAAAAB/9oACAECAQE/AY//xAAVEAEBAAAAAAAAAAAAAAAAAAAAMf/aAAgBAQAGPwKP/8QAFRAB
AQAAAAAAAAAAAAAAAAAAAEH/2gAIAQEAAT8hnH//2gAMAwEAAgADAAAAEAP/xAAWEQADAAAAAAAAAAAAAAAAAAAAESH/2gAIAQMBAT8QW0//xAAVEQEBAAAAAAAAAAAA
AAAAAAAAMf/aAAgBAgEBPxCH/8QAFRABAQAAAAAAAAAAAAAAAAAAAAH/2gAIAQEAAT8Qtb//2Q=="
base64 -d >"$corpus/media/seeds/stereo.flac" <<<"ZkxhQwAAACIQABAAAAAmAAAmA+gCcAAAADREB39IVsfWxRn85d/A+x/PAwAAEgAAAAAAAAAAAAAAAAAAAAAANIQAACggAAAAcmVmZXJlbmNlIGxpYkZMQUMgMS40LjIg
MjAyMjEwMjIAAAAA//hlkgAzQgD/itiyAGqqqgAMABVVVUABgAKqqqgAMABVVVUAOeo="

# Of large files the head is enough: what is parsed lies there, and small inputs run more often.
copy_head() {  # BYTES FOLDER FILES...
  local bytes=$1 folder=$2 file name; shift 2
  for file in "$@"; do
    [ -f "$file" ] || continue
    name=${file//\//-}
    head -c "$bytes" "$file" >"$folder/${name//../up}"
  done
}
copy_head 32768 "$corpus/gguf/seeds" models/pretrained/*.gguf
for fixtures in tests/fixtures "${PUMICE_FIXTURES:-../shared/fixtures}"; do
  copy_head 32768 "$corpus/gguf/seeds" "$fixtures"/gguf/{random-Q8_0,random-Q4_K_M,stories260K-F16,stories260K-Q8_0}.gguf
  copy_head 16384 "$corpus/safetensors/seeds" "$fixtures"/models/*/{model,expected}.safetensors
  copy_head 16384 "$corpus/config/seeds" "$fixtures"/models/*/config.json
  copy_head 131072 "$corpus/tokenizer/seeds" "$fixtures"/tokenizers/*/tokenizer.json
done
cp tests/fixtures/templates/*.jinja "$corpus/template/seeds"

form() { printf '%s%b' "$2" "$3" >"$corpus/form/seeds/$1"; } # the kind of form, and its source
form regex 0 '^(a|[b-d]{2,3}|\\p{Lu}+?)*(?:x\\u00e9|\\d{,4})$'
form schema 1 '{"type":"object","properties":{"a":{"type":"string","pattern":"^a+$","maxLength":4},"b":{"type":"array","items":{"$ref":"#"}}},"required":["a"]}'
form schema2 1 '{"anyOf":[{"type":"integer","minimum":-3,"maximum":120},{"enum":["x",1.5,null]},{"type":"string","format":"date"}]}'
form gbnf 2 'root ::= (a | "(" root ")")+ "\\n"{1,3}\na ::= [^a-c\\x41] . # comment\n'
form lark 2 '?start: sum\n    | NAME "=" sum -> assign\nsum: atom | sum ("+"|"-") atom\natom.2: NUMBER~1..2 | "(" sum ")" | /[a-z]\\/?/ ["x"i "a".."c"{2,}]\n%import common (NUMBER, WS)\n%import common.CNAME -> NAME\n%ignore WS\n'

multipart() { printf "$2" >"$corpus/multipart/seeds/$1"; }
multipart file 'multipart/form-data; boundary=x\n--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\nRIFF\r\n--x--\r\n'
multipart two 'Multipart/Form-Data; Boundary="a b"\n--a b\r\nContent-Disposition: form-data; name="a\\"b"\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\r\n--a b\r\ncontent-disposition:form-data;name=b\r\n\r\n--a b-\r\n--a b--'
