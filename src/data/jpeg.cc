#include "data/image_codecs.h"

#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>
// jerror.h needs jpeglib.h before it.
#include <jerror.h>

#include <array>

#include "data/input_file.h"

namespace tally::data {
namespace {

// libjpeg ends the process after an error unless the handler does not return, so this handler calls
// longjmp(). Functions that longjmp() leaves must have no objects with destructors. The caller owns
// the Decoder, whose destructor cleans up.
class Decoder final {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : bytes_(bytes) {
    state_.err = jpeg_std_error(&handler_.base);
    handler_.base.error_exit = [](j_common_ptr state) {
      Handler& handler = *reinterpret_cast<Handler*>(state->err);
      state->err->format_message(state, handler.message.data());
      std::longjmp(handler.place, 1);
    };
    // Warnings: extra bytes between two markers are harmless; all other warnings mean damage.
    handler_.base.emit_message = [](j_common_ptr state, int level) {
      if (level >= 0 || state->err->msg_code == JWRN_EXTRANEOUS_DATA) return;
      state->err->error_exit(state);
    };
  }
  ~Decoder() { jpeg_destroy_decompress(&state_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Reads the header.
  bool begin() {
    if (setjmp(handler_.place) != 0) return false;
    jpeg_create_decompress(&state_);
    jpeg_mem_src(&state_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&state_, TRUE);
    return true;
  }

  // Starts decoding; afterwards output_width and the other output fields are set.
  bool start(int reduction) {
    if (setjmp(handler_.place) != 0) return false;
    state_.scale_num = 1;
    state_.scale_denom = static_cast<unsigned>(reduction);
    state_.out_color_space = is_grey() ? JCS_GRAYSCALE : has_black() ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&state_);
    return true;
  }

  // Reads all rows into `pixels`, which has room for them.
  bool read(std::uint8_t* pixels, std::size_t row_bytes) {
    if (setjmp(handler_.place) != 0) return false;
    while (state_.output_scanline < state_.output_height) {
      JSAMPROW row = pixels + state_.output_scanline * row_bytes;
      jpeg_read_scanlines(&state_, &row, 1);
    }
    jpeg_finish_decompress(&state_);
    return true;
  }

  bool is_grey() const { return state_.jpeg_color_space == JCS_GRAYSCALE; }
  bool has_black() const {
    return state_.jpeg_color_space == JCS_CMYK || state_.jpeg_color_space == JCS_YCCK;
  }
  const jpeg_decompress_struct& state() const { return state_; }

  ImageSize size() const {
    // The format stores sides in 16 bits, so they fit an int.
    return {is_grey() ? 1 : 3, static_cast<int>(state_.image_height),
            static_cast<int>(state_.image_width)};
  }

  Error error(const std::string& name) const {
    const std::size_t left = state_.src != nullptr ? state_.src->bytes_in_buffer : 0;
    if (state_.err->msg_code == JERR_OUT_OF_MEMORY)
      return {.code = ErrorCode::kExhausted, .message = name + ": no memory to decode it"};
    return corrupt(name, left <= bytes_.size() ? bytes_.size() - left : 0, "a whole JPEG image",
                   handler_.message.data());
  }

 private:
  struct Handler {
    jpeg_error_mgr base{};
    std::jmp_buf place{};
    std::array<char, JMSG_LENGTH_MAX> message{};
  };
  std::span<const std::byte> bytes_;
  Handler handler_;
  jpeg_decompress_struct state_{};
};

// CMYK to RGB. Programs that write CMYK files store inverted values.
void cmyk_to_rgb(Image& image) {
  const std::size_t pixels = image.pixels.size() / 4;
  for (std::size_t i = 0; i < pixels; ++i) {
    const int black = image.pixels[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c)
      image.pixels[3 * i + c] = static_cast<std::uint8_t>(image.pixels[4 * i + c] * black / 255);
  }
  image.pixels.resize(3 * pixels);
}

}  // namespace

bool is_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0xFF} && bytes[1] == std::byte{0xD8} &&
         bytes[2] == std::byte{0xFF};
}

Result<ImageSize> jpeg_size(std::span<const std::byte> bytes, const std::string& name) {
  Decoder decoder(bytes);
  if (!decoder.begin()) return decoder.error(name);
  TALLY_TRY(check_size(decoder.size(), name, 0));
  return decoder.size();
}

Result<Image> decode_jpeg(std::span<const std::byte> bytes, const std::string& name,
                          int reduction) {
  Decoder decoder(bytes);
  if (!decoder.begin()) return decoder.error(name);
  TALLY_TRY(check_size(decoder.size(), name, 0));
  if (!decoder.start(reduction)) return decoder.error(name);
  const auto& state = decoder.state();
  Image image{.size = {decoder.size().channels, static_cast<int>(state.output_height),
                       static_cast<int>(state.output_width)}};
  const std::size_t row_bytes =
      std::size_t{state.output_width} * static_cast<std::size_t>(state.output_components);
  image.pixels.resize(row_bytes * state.output_height);
  if (!decoder.read(image.pixels.data(), row_bytes)) return decoder.error(name);
  if (decoder.has_black()) cmyk_to_rgb(image);
  return image;
}

}  // namespace tally::data
