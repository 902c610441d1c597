#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/readable_tensors.h"
#include "io/model_file.h"
#include "media/preprocess.h"
#include "text/chat/picture_markup.h"

namespace pumice {

struct GgufModel; // not included: its header needs the JSON library, which is slow to compile

// A setting of a model, for a person to read.
struct Hyperparameter {
  std::string name;
  std::string value;
};

// A tensor that a model needs: its name in the file's format, its shape (outermost first), and the part of
// the model it belongs to: "embedding", "attention", "feed-forward", "norms" or "head".
struct WeightSpec {
  std::string name;
  std::vector<uint64_t> shape;
  std::string component;
};

// The keys and values that a layer keeps of each position.
struct LayerCache {
  uint32_t kv_heads = 0; // 0: it keeps none
  uint32_t head_dim = 0;
  uint32_t window = 0;          // most positions that a token attends to, its own included; 0: all
  bool values_are_keys = false; // see CacheLayout
};

enum class InputKind : uint32_t {
  tokens,
  pixels,   // of a picture [channels, height, width], normalised
  features, // of a sound [mels, frames]: the logarithm of its mel spectrum
  samples,  // of a sound, as many as it has
  patches,  // of a picture of any size, normalised: a row of the step each
};

// A convolution over a sound, without padding: windows of `width` frames, `stride` apart.
struct FrameConvolution {
  uint32_t width = 1;
  uint32_t stride = 1;

  uint32_t frames(uint32_t of) const { return of < width ? 0 : (of - width) / stride + 1; }
};

// How an encoder of patches groups them: into squares, and these into windows.
struct PatchGroups {
  uint32_t merge = 1;  // patches on each side of a square, which becomes one row
  uint32_t window = 1; // squares on each side of a window; 0: there are none
  // A square's patches are not in lines: four that are a square lie side by side, and so do four of those.
  // Then its side is a power of two.
  bool nested = false;
};

// How an encoder of a sound makes rows for a decoder. Of one that reads samples, each so-many'th position is
// a row, and its tensor has twice the columns: a row's, then those of what fills up the sound's rows.
struct SoundWindows {
  uint32_t joined = 1; // positions that become one row
  // A sound is one window, what is behind it is cut off, and positions that it does not fill are not seen.
  // Otherwise it has as many windows as it needs, the last of which is filled up with silence.
  bool one = false;
};

// What the logits of each token say.
enum class TokenHead : uint32_t {
  none,
  labels,  // which of EncoderShape::token_labels the token has
  answers, // whether an answer to a question begins with it (the first column), and ends with it
};

// What an encoder reads. The positions of an input are its tokens (text), its patches and class token
// (picture), every second frame of features, or what convolutions leave of samples (sound).
struct EncoderShape {
  InputKind kind = InputKind::tokens;
  uint32_t vocabulary = 0;  // of tokens
  uint32_t token_types = 1; // of tokens
  uint32_t context = 0;     // most positions of one input; a picture or features always have this many
  bool any_length = false;  // inputs may be longer than the context, which is what it was trained with
  bool causal = false;      // a token sees those before it only, see reading_shape()
  std::vector<uint32_t> input_shape;          // of a picture, a sound or a patch; of samples: the most
  std::vector<FrameConvolution> convolutions; // over samples
  std::optional<uint32_t> padding;            // a text is filled up to the context with this token
  // Of a picture that a text follows, which is read together with it. 0: there is none.
  uint32_t picture_rows = 0;
  // Not 0: positions of a picture from here on see those before them, and are not seen by these.
  uint32_t causal_from = 0;
  // Of that text: a task's word, and what is asked in its place, with "{input}" where there is more than the
  // word. The first one is usual.
  std::vector<std::pair<std::string_view, std::string_view>> tasks;
  uint32_t hidden = 0;
  uint32_t layers = 0;             // where EncoderGraph::cuts names their beginnings
  std::vector<std::string> labels; // names of the classes that the logits are about
  TokenHead token_head = TokenHead::none;
  std::vector<std::string> token_labels;
  // Caches for the positions of its inputs; they follow those of the decoder: one for the cross-attention of
  // each decoder layer, then one that all encoder layers share.
  std::vector<LayerCache> caches;

  std::optional<PatchGroups> patch_groups;   // of patches
  std::optional<SoundWindows> sound_windows; // of a sound that a decoder's prompt has rows of
  // How pictures are prepared, where the model's file says it and not its folder: picture_preparation().
  std::optional<ImagePreparation> preparation;

  // Whether every input has as many positions as the context, or about as many: a picture or a sound of one
  // size.
  bool of_one_length() const {
    return kind != InputKind::tokens && kind != InputKind::patches && picture_rows == 0;
  }
  // Where an input's text begins; behind all where it has none.
  uint32_t first_token() const {
    return kind == InputKind::tokens ? 0 : picture_rows > 0 ? picture_rows : UINT32_MAX;
  }
  // Of pictures of any size: as large as the context allows.
  PatchCutting cutting() const {
    const uint32_t patch = input_shape[2]; // [colours, copies, height, width]
    return {patch, input_shape[1], patch_groups->merge, 0, uint64_t{context} * patch * patch};
  }
  uint32_t input_values() const {
    uint32_t count = 1;
    for (uint32_t size : input_shape) count *= size;
    return count;
  }
  // The positions of a sound of so many samples.
  uint32_t frames(uint32_t samples) const {
    for (const FrameConvolution& each : convolutions) samples = each.frames(samples);
    return samples;
  }
};

// A space that has texts and pictures as vectors of length 1. Each tower's graph has its own under a name.
struct SharedSpace {
  static constexpr const char* text = "text_embeds";
  static constexpr const char* picture = "image_embeds";

  // The logit of a pair is scale * cosine + bias.
  float scale = 1;
  float bias = 0;
  bool each_by_itself = false; // a pair's probability is the sigmoid; otherwise a softmax over the texts
};

// How a decoder reads pictures: each is `rows` tokens, whose embeddings are rows that its tower gives. One
// that is cut into tiles is several pictures to both. Sounds are read in the same way: a window of a sound is
// what a picture is, in a grid of one line.
struct PictureTokens {
  static constexpr const char* features = "image_features"; // of the tower's graph

  uint32_t token = 0; // stands for a row in a text
  uint32_t rows = 0;  // of a picture; of one of any size at most, where they are bidirectional, see rows_of()
  bool sounds = false; // it hears, and does not see
  // Not 0: pictures have any size, and a row for each square of so many patches on each side.
  uint32_t merge = 0;
  // Of those: a row's place in the picture is a part of its rotary position, see RotaryPlaces. Otherwise it
  // is one of the text's tokens.
  bool placed = true;
  uint32_t skipped = 0;       // the tower's first rows, which are not read
  bool bidirectional = false; // a row sees all rows of its picture, those after it too
  // A row has its embedding, then as many numbers for each of the first so many layers, whose results they
  // are added to (Meng et al., DeepStack, 2024).
  uint32_t deep_layers = 0;
  PictureMarkup markup = {};
  // What a prompt asks where nothing is said and there is no chat template; empty: the usual of pictures.
  std::string question = {};
  // What asks for the words of a sound, with "{language}" for `spoken`, where "{code}" is a language's, or
  // for nothing; empty: the model was not trained to write them down.
  std::string transcription = {}, spoken = {};

  bool of_any_size() const { return merge > 0; }
  bool has_places() const { return of_any_size() && placed; }
  // Of a picture of so many patches. Those of one size need not have them; their tiles do where they have
  // another size, and then these are rows.
  size_t rows_of(const PatchGrid& grid) const {
    if (sounds || (!of_any_size() && grid.count() > 0)) return static_cast<size_t>(grid.count());
    return of_any_size() ? static_cast<size_t>(grid.merged(merge).count()) : rows;
  }
};

// Parts of a model that are loaded by themselves, each as a model of its own: what reads text, or all there
// is; what makes vectors of pictures for it; and what guesses at its tokens.
enum class Tower : uint32_t {
  main,
  pictures,
  prediction, // a layer that guesses at the token after the next one (multi-token prediction), a decoder
};

// What the runtime needs to know about a model beside its graphs.
struct ModelShape {
  uint32_t vocabulary = 0;        // of the decoder; 0: it has none
  uint32_t context = 0;           // positions the decoder was trained for
  std::vector<LayerCache> layers; // of the decoder
  // Floats of each state that the decoder's recurrent operations keep of a sequence, see StateLayout.
  std::vector<uint32_t> states = {};
  // Caches of the decoder that follow those of its layers.
  std::vector<LayerCache> further_caches = {};
  // The layers from here on attend to keys and values of earlier ones, so they stay together with this layer.
  uint32_t last_cut = UINT32_MAX;
  std::optional<EncoderShape> encoder;
  std::optional<SharedSpace> shared_space = {};
  std::optional<PictureTokens> pictures = {};

  bool has_decoder() const { return vocabulary > 0; }
  // All caches of the decoder: the layers', then the further ones.
  std::vector<LayerCache> decoder_caches() const {
    std::vector<LayerCache> all = layers;
    all.insert(all.end(), further_caches.begin(), further_caches.end());
    return all;
  }
  // The layers that stages divide: those of an encoder that a decoder follows, then the decoder's.
  uint32_t encoder_layers() const { return has_decoder() && encoder ? encoder->layers : 0; }
  uint32_t layers_to_cut() const { return encoder_layers() + static_cast<uint32_t>(layers.size()); }
};

// A matrix of a decoder in the model's other form: GGUF's of a Hugging Face file, and the other way round.
struct OtherForm {
  std::string name;              // without ".weight"
  std::vector<WeightView> parts; // of the file's tensors, one after the other
  // How GGUF's rows follow from Hugging Face's, see GgufTensor.
  uint32_t rotary_heads = 0, rotary_dim = 0;
  float scale = 1;
  bool rows_only = true; // GGUF's are nothing but these rows, scaled
};

// What a matrix of a decoder is multiplied by: a readable tensor with a row for each token.
struct MatrixInput {
  static constexpr const char* prefix = "matrix_inputs."; // of the tensor's name, before its number

  std::string matrix; // the tensor's name in the file
  size_t number = 0;  // matrices that read the same have the same one
};

// A decoder's graph, the tensors that can be made readable, and the tensor that sampling reads.
struct DecoderGraph {
  Graph graph;
  ReadableTensors readable;                // see DecoderBuilder::take
  TensorId logits = 0;                     // [outputs, vocabulary]
  std::vector<TensorId> layer_inputs = {}; // what each layer reads; empty: it cannot be cut
  // Matrices; several of one name are parts of it, one after the other.
  std::vector<OtherForm> other_forms = {};
  std::vector<MatrixInput> matrix_inputs = {}; // not of experts, nor of the head
};

// An encoder's graph. If the model has a decoder, it ends with the keys and values for the decoder's
// cross-attention.
struct EncoderGraph {
  Graph graph;
  ReadableTensors readable; // see EncoderBuilder::take
  // Before a decoder: what is computed last before each of the encoder's layers, and then before the keys and
  // values of each decoder layer are. Empty: it cannot be cut.
  std::vector<TensorId> cuts = {};
};

// One model of an architecture, made from its config, which has been read and checked.
class ModelDefinition {
public:
  virtual ~ModelDefinition() = default;
  virtual ModelShape shape() const = 0;
  virtual std::vector<Hyperparameter> hyperparameters() const = 0;
  // Every tensor the model needs. A tied head is not listed twice.
  virtual std::vector<WeightSpec> weights() const = 0;
  // What the names begin with of those that the host computes with too.
  virtual std::vector<std::string_view> host_weights() const { return {}; }
  // They find the weights in the file and check their names and shapes. If the model has no decoder (or no
  // encoder), graph() (or encoder_graph()) is an error.
  virtual Result<DecoderGraph> graph(const ModelFile& file) const;
  virtual Result<EncoderGraph> encoder_graph(const ModelFile& file) const;
  // A decoder that reads whole texts, as an encoder does: each token sees those before it, and nothing is
  // kept after a step. An error if there is no decoder, or if its layers keep states.
  virtual Result<EncoderShape> reading_shape(const ModelFile& file) const;
  virtual Result<EncoderGraph> reading_graph(const ModelFile& file) const;
  // Before its graphs are made: the size of the pictures that it reads, where it can read several.
  virtual Status set_picture_size(uint32_t height, uint32_t width);
  // What reads the tiles of pictures, where these have another size than the whole: an encoder of the same
  // weights. null: what reads the whole.
  virtual const ModelDefinition* tiles() const { return nullptr; }
  // The layer of Tower::prediction, a decoder of one layer with the embeddings and the head. Beside a token's
  // embedding its steps read, as the row's input, what the model's last layer gave for the token before it;
  // "hidden_states.0" is what stands in for that behind a guess. An error if the file has none.
  virtual Result<std::unique_ptr<ModelDefinition>> prediction_layer(const ModelFile& file) const;
  // The same model in llama.cpp's GGUF form. `file` is the Hugging Face folder that it was read from.
  virtual Result<GgufModel> gguf(const ModelFile& file) const;
};

// Reads the config of a file with the architecture that it names, or its mmproj file. The tower of pictures
// is read from a file's mmproj file, or an mmproj file alone; its tensors are found in that file.
Result<std::unique_ptr<ModelDefinition>> open_model_definition(const ModelFile& file,
                                                               Tower tower = Tower::main);
// The same of a model that turns texts into vectors or scores: an encoder as it is; of a decoder, what
// reading_shape() and reading_graph() say of it. A model with both is an error.
Result<std::unique_ptr<ModelDefinition>> open_text_reader(const ModelFile& file);
bool has_picture_tower(const ModelFile& file);
// Whether GGUF files of llama.cpp have a name for the file's architecture.
bool has_gguf_name(const ModelFile& file);

} // namespace pumice
