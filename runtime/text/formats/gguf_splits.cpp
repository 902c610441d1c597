#include "text/formats/gguf_splits.h"

#include <algorithm>

namespace pumice::text {

namespace {

// The rules are those of the models' own tokenizer.json.

constexpr std::string_view kGpt2[] = {kGpt2Pattern};

constexpr std::string_view kDefault[] = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)",
                                         "[0-9][0-9][0-9]"};

constexpr std::string_view kFalcon[] = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, "[0-9][0-9][0-9]"};

constexpr std::string_view kDigitsApart[] = {R"(\p{N})", kGpt2Pattern};

constexpr std::string_view kChameleon[] = {"<sentinel:[0-9]+>",       "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                                           R"([\t\n]|    |  )",       R"(\p{N})",
                                           R"([\p{P}!-/:-@\[-`{-~])", kGpt2Pattern};

// Bloom's family: words are what lies between spaces and marks.

constexpr std::string_view kBloomPattern = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr std::string_view kBloom[] = {kBloomPattern};
constexpr std::string_view kViking[] = {kBloomPattern, R"(\p{N})"};

// Llama 3's family: a word takes the character before it, and line ends follow marks.

constexpr std::string_view kLlama3[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kJais2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"};

constexpr std::string_view kMiniCpm5[] = {
    R"(\p{N}{1,3})",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2[] = {kQwen2Pattern};
constexpr std::string_view kLaguna[] = {R"([^\n]+|\n+)", kQwen2Pattern};

constexpr std::string_view kQwen35[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kNoContractions[] = {
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kSeedCoder[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kBailing[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};

constexpr std::string_view kExaoneMoe[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"};

// GPT-4o's family: a word ends before a capital letter that follows a small one.

constexpr std::string_view kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o[] = {kGpt4oPattern};
constexpr std::string_view kTinyAya[] = {R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4oPattern};

constexpr std::string_view kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kYoutu[] = {
    R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

// The same without Han, whose characters are words of their own. ((?!\p{Han}) stands for &&[^\p{Han}].)
constexpr std::string_view kKimiK2[] = {
    R"(\p{Han}+|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

// DeepSeek's family: Chinese and Japanese are cut from the rest first.

constexpr std::string_view kHanAndHangul = "[一-龥ࠀ-一가-퟿]+";
constexpr std::string_view kHanAndKana = "[一-龥぀-ゟ゠-ヿ]+";

// The letters are those with a case, of an older version of Unicode.
constexpr std::string_view kDeepseekLlm[] = {
    R"([\r\n])",
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)",
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    R"(\s+$)",
    kHanAndHangul,
    R"(\p{N})"};

constexpr std::string_view kDeepseekCoder[] = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kHanAndHangul,
                                               R"(\p{N})"};

constexpr std::string_view kDeepseek3Pattern =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseek3[] = {R"(\p{N}{1,3})", kHanAndKana, kDeepseek3Pattern};

constexpr std::string_view kSpark25[] = {
    R"(\p{N}{1,3})", kHanAndKana,
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
    R"(\p{N})"};

// Digits in threes from the right; scripts without spaces between words.
constexpr std::string_view kAfmoe[] = {
    R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))",
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)",
    kDeepseek3Pattern};

// Rules that leave words together.

constexpr std::string_view kSuperBpe[] = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}; // threes from the right
constexpr std::string_view kLines[] = {R"([^\n]+|\n+)"};

constexpr bool kIgnoreMerges = true, kAddBos = true, kPairsAsRoberta = true;

// Of several names with the same rules, the first is the one that is written.
constexpr GgufSplit kSplits[] = {
    {"default", kDefault},
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"jina-es", kGpt2},
    {"jina-de", kGpt2},
    {"jina-v2-es", kGpt2},
    {"jina-v2-de", kGpt2},
    {"jina-v1-en", kGpt2, !kIgnoreMerges, !kAddBos, kPairsAsRoberta},
    {"jina-v2-code", kGpt2, !kIgnoreMerges, !kAddBos, kPairsAsRoberta},
    {"roberta-bpe", kGpt2, !kIgnoreMerges, !kAddBos, kPairsAsRoberta},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"gigachat", kGpt2},
    {"a.x-4.0", kGpt2},
    {"mellum", kGpt2},
    {"modern-bert", kGpt2},
    {"exaone4", kGpt2},
    {"granite-docling", kGpt2},
    {"falcon", kFalcon},
    {"starcoder", kDigitsApart},
    {"refact", kDigitsApart},
    {"command-r", kDigitsApart},
    {"smollm", kDigitsApart},
    {"codeshell", kDigitsApart},
    {"exaone", kDigitsApart},
    {"minerva-7b", kDigitsApart},
    {"mellum2", kDigitsApart},
    {"chameleon", kChameleon, !kIgnoreMerges, kAddBos},
    {"bloom", kBloom},
    {"poro-chat", kBloom},
    {"gpt3-finnish", kBloom},
    {"viking", kViking},
    {"llama-bpe", kLlama3, kIgnoreMerges, kAddBos},
    {"llama3", kLlama3, kIgnoreMerges, kAddBos},
    {"llama-v3", kLlama3, kIgnoreMerges, kAddBos},
    {"falcon3", kLlama3, kIgnoreMerges, kAddBos},
    {"falcon-h1", kLlama3, kIgnoreMerges, kAddBos},
    {"pixtral", kLlama3, kIgnoreMerges, kAddBos},
    {"midm-2.0", kLlama3, kIgnoreMerges, kAddBos},
    {"lfm2", kLlama3, kIgnoreMerges, kAddBos},
    {"jina-v5-nano", kLlama3, kIgnoreMerges, kAddBos},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"chatglm-bpe", kLlama3},
    {"glm4", kLlama3},
    {"jais-2", kJais2},
    {"minicpm5", kMiniCpm5, kIgnoreMerges},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"kormo", kQwen2},
    {"f2llmv2", kQwen2},
    {"stablelm2", kQwen2},
    {"hunyuan", kQwen2},
    {"megrez", kQwen2},
    {"grok-2", kQwen2},
    {"solar-open", kQwen2},
    {"laguna", kLaguna},
    {"qwen35", kQwen35},
    {"ufakzeka", kNoContractions},
    {"seed-coder", kSeedCoder},
    {"bailingmoe", kBailing},
    {"bailingmoe2", kBailing},
    {"llada-moe", kBailing},
    {"exaone-moe", kExaoneMoe},
    {"tekken", kTekken, kIgnoreMerges, kAddBos},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"talkie", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"granite-embed-multi-97m", kGpt4o, kIgnoreMerges},
    {"tiny_aya", kTinyAya},
    {"cohere2moe", kTinyAya},
    {"youtu", kYoutu, kIgnoreMerges},
    {"kimi-k2", kKimiK2},
    {"deepseek-llm", kDeepseekLlm},
    {"deepseek-coder", kDeepseekCoder},
    {"deepseek-v3", kDeepseek3},
    {"hunyuan-dense", kDeepseek3},
    {"joyai-llm", kDeepseek3},
    {"hy_v4", kDeepseek3},
    {"spark2_5", kSpark25},
    {"afmoe", kAfmoe},
    {"superbpe", kSuperBpe},
    {"gemma4", kLines, !kIgnoreMerges, kAddBos, !kPairsAsRoberta, GgufSpelling::marked_spaces},
    {"granite-embed-multi-311m", kLines, !kIgnoreMerges, kAddBos, !kPairsAsRoberta,
     GgufSpelling::marked_spaces},
    {"sarvam-moe", kLines, !kIgnoreMerges, !kAddBos, !kPairsAsRoberta, GgufSpelling::marked_spaces},
    {"whitespace", {}, !kIgnoreMerges, !kAddBos, !kPairsAsRoberta, GgufSpelling::words},
};

} // namespace

const GgufSplit* find_gguf_split(std::string_view name) {
  for (const GgufSplit& split : kSplits) {
    if (split.name == name) return &split;
  }
  return nullptr;
}

const GgufSplit* find_gguf_split(std::span<const std::string> patterns, bool ignore_merges) {
  for (const GgufSplit& split : kSplits) {
    if (split.ignore_merges == ignore_merges && split.spelling == GgufSpelling::bytes &&
        std::ranges::equal(split.patterns, patterns))
      return &split;
  }
  return nullptr;
}

std::span<const GgufSplit> gguf_splits() {
  return kSplits;
}

Result<PreTokenizerPtr> make_gguf_split(const GgufSplit& split) {
  if (split.spelling == GgufSpelling::words) return make_whitespace();
  std::vector<PreTokenizerPtr> steps;
  for (std::string_view pattern : split.patterns) {
    PUMICE_TRY(Regex regex, Regex::compile(pattern));
    steps.push_back(make_split(std::move(regex), SplitBehavior::isolated, false));
  }
  if (split.spelling == GgufSpelling::bytes) steps.push_back(make_byte_level(false, std::nullopt));
  return make_sequence(std::move(steps));
}

} // namespace pumice::text
