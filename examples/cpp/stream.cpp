// One stream of an exported model: a line of numbers in, a line of numbers out.
//
//     ./stream load-onnx < tokens.csv
//
// The state is overwritten in place: every state_... and its next_state_... are the same
// memory. So a step copies nothing, and with fixed landmarks its cost does not depend on
// the window.

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using nlohmann::json;

class Stream {
 public:
  explicit Stream(const std::string& folder) {
    std::ifstream file(folder + "/model.json");
    if (!file) throw std::runtime_error(folder + " has no model.json");
    const json card = json::parse(file);
    if (card.at("version") > 1) throw std::runtime_error("a newer version wrote it");
    if (!card.at("in_place")) throw std::runtime_error("its state must be copied");

    options_.SetIntraOpNumThreads(1);
    const std::string path = folder + "/" + card.at("files").at("step").get<std::string>();
    session_ = Ort::Session(env_, path.c_str(), options_);
    binding_ = Ort::IoBinding(session_);
    x.resize(elements(card.at("x")));
    y.resize(elements(card.at("y")));
    bind(card.at("x"), "x", "", x.data());
    bind(card.at("y"), "", "y", y.data());
    for (const json& state : card.at("states")) {
      const auto input = state.at("input").get<std::string>();
      const auto output = state.at("output").get<std::string>();
      if (state.at("dtype") == "int64") {
        integers_.emplace_back(elements(state), state.at("initial").get<int64_t>());
        bind(state, input, output, integers_.back().data());
      } else {
        floats_.emplace_back(elements(state), number(state.at("initial")));
        bind(state, input, output, floats_.back().data());
      }
    }
  }

  // Reads x, writes y.
  void step() { session_.Run(Ort::RunOptions{}, binding_); }

  std::vector<float> x, y;

 private:
  static float number(const json& initial) {  // JSON has no infinity
    const float infinity = std::numeric_limits<float>::infinity();
    return initial.is_string() ? -infinity : initial.get<float>();
  }

  static std::vector<int64_t> shape(const json& tensor) {
    std::vector<int64_t> sizes;
    for (const json& size : tensor.at("shape")) {
      sizes.push_back(size.is_string() ? 1 : size.get<int64_t>());  // "streams" is 1
    }
    return sizes;
  }

  static size_t elements(const json& tensor) {
    size_t count = 1;
    for (int64_t size : shape(tensor)) count *= static_cast<size_t>(size);
    return count;
  }

  template <typename T>
  void bind(const json& tensor, const std::string& input, const std::string& output,
            T* data) {
    const auto sizes = shape(tensor);
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    const auto value = Ort::Value::CreateTensor<T>(memory, data, elements(tensor),
                                                   sizes.data(), sizes.size());
    if (!input.empty()) binding_.BindInput(input.c_str(), value);
    if (!output.empty()) binding_.BindOutput(output.c_str(), value);
  }

  Ort::Env env_{ORT_LOGGING_LEVEL_WARNING, "nystream"};
  Ort::SessionOptions options_;
  Ort::Session session_{nullptr};
  Ort::IoBinding binding_{nullptr};
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<int64_t>> integers_;
};

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: stream FOLDER < tokens.csv");
  Stream stream(argv[1]);
  std::cout << std::setprecision(9);
  for (std::string line; std::getline(std::cin, line);) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream numbers(line);
    for (float& value : stream.x) {
      if (!(numbers >> value)) throw std::runtime_error("too few numbers: " + line);
    }
    stream.step();
    for (size_t i = 0; i < stream.y.size(); ++i) std::cout << (i ? "," : "") << stream.y[i];
    std::cout << std::endl;
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
