#include "source.hpp"

#include <algorithm>
#include <cstring>

namespace shim {
namespace {

constexpr std::string_view sigv4_begin = "aws:amz:", sigv4_end = ":s3";
constexpr std::string_view token_header = "x-amz-security-token: ";

const std::string& text_at(const void* endpoint, std::size_t offset) { return at<std::string>(endpoint, offset); }

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

const char* read_s3(const void* endpoint, Source& source) {
  const std::string& sigv4 = text_at(endpoint, abi::s3_sigv4);
  if (sigv4.size() < sigv4_begin.size() + sigv4_end.size() || sigv4.compare(0, sigv4_begin.size(), sigv4_begin) != 0 ||
      sigv4.compare(sigv4.size() - sigv4_end.size(), sigv4_end.size(), sigv4_end) != 0) {
    return "an S3 endpoint signs in an unknown way";
  }
  source.region = std::string_view(sigv4).substr(
      sigv4_begin.size(), sigv4.size() - sigv4_begin.size() - sigv4_end.size());
  const std::string& userpwd = text_at(endpoint, abi::s3_userpwd);
  const std::size_t colon = userpwd.find(':');
  if (colon == std::string::npos) return "an S3 endpoint has credentials of an unknown form";
  source.key_id = std::string_view(userpwd).substr(0, colon);
  source.secret = std::string_view(userpwd).substr(colon + 1);
  for (const auto* line = at<const abi::Lines*>(endpoint, abi::s3_headers); line != nullptr; line = line->next) {
    const std::string_view text = line->text;
    if (text.substr(0, token_header.size()) != token_header) return "an S3 endpoint sends an unknown header";
    source.token = text.substr(token_header.size());
  }
  if (has_nul(source.region) || has_nul(source.key_id) || has_nul(source.secret)) {
    return "an S3 endpoint's credentials hold a NUL";
  }
  return nullptr;
}

}  // namespace

void Source::key(std::string& into) const {
  // A byte that stands in no URL and no credential keeps the parts apart.
  into.clear();
  into.push_back(static_cast<char>('0' + static_cast<int>(kind)));
  into.append(url);
  for (const std::string_view part : {region, key_id, secret, token}) into.append(1, '\0').append(part);
  into.append(user ? "\0u" : "\0-", 2);
  if (user) into.append(*user);
}

Source source_of(const void* endpoint, Kind kind, const char*& reason) {
  Source source;
  reason = nullptr;
  source.url = text_at(endpoint, abi::endpoint_url);
  if (has_nul(source.url)) reason = "a URL holds a NUL";
  if (kind == Kind::s3 && reason == nullptr) reason = read_s3(endpoint, source);
  if (kind == Kind::webhdfs && at<unsigned char>(endpoint, abi::webhdfs_has_user) != 0) {
    source.user = text_at(endpoint, abi::webhdfs_user);
    if (has_nul(*source.user)) reason = "a user's name holds a NUL";
  }
  if (reason == nullptr) source.kind = kind;
  return source;
}

std::string encoded_s3_url(std::string_view url) {
  static constexpr char hex[] = "0123456789ABCDEF";
  // What libcurl signs otherwise than services do, as KvikIO's documentation of object names has it; and what cannot be
  // part of a URL.
  static constexpr std::string_view encoded = "!*'()&$@=;:+,\"<>\\^`{|}";
  const std::size_t scheme = url.find("://");
  const std::size_t path = scheme == std::string_view::npos ? std::string_view::npos : url.find('/', scheme + 3);
  if (path == std::string_view::npos) return std::string(url);
  const std::size_t end = std::min(url.find_first_of("?#", path), url.size());
  std::string out(url.substr(0, path));
  out.reserve(url.size() + 16);
  for (const char c : url.substr(path, end - path)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte >= 0x7f || encoded.find(c) != std::string_view::npos) {
      out.push_back('%');
      out.push_back(hex[byte >> 4]);
      out.push_back(hex[byte & 15]);
    } else {
      out.push_back(c);
    }
  }
  return out.append(url.substr(end));
}

std::shared_ptr<Remote> Remote::open(const Source& source, raskio_client* client, RaskioError& error) {
  raskio_object_options options{};
  options.struct_size = sizeof options;
  std::string url(source.url), region, key_id, secret, token, user;
  switch (source.kind) {
    case Kind::http: options.endpoint = RASKIO_ENDPOINT_HTTP; break;
    case Kind::s3:
      options.endpoint = RASKIO_ENDPOINT_S3;
      url = encoded_s3_url(source.url);
      options.region = (region = source.region).c_str();
      options.access_key_id = (key_id = source.key_id).c_str();
      options.secret_access_key = (secret = source.secret).c_str();
      if (!source.token.empty()) options.session_token = (token = source.token).c_str();
      break;
    case Kind::s3_public:
      options.endpoint = RASKIO_ENDPOINT_S3_PUBLIC;
      // KvikIO opens s3://bucket/key so when the credentials do not fit; the key is raw there.
      if (url.compare(0, 5, "s3://") != 0) url = encoded_s3_url(source.url);
      break;
    case Kind::presigned: options.endpoint = RASKIO_ENDPOINT_S3_PRESIGNED; break;
    case Kind::webhdfs:
      options.endpoint = RASKIO_ENDPOINT_WEBHDFS;
      if (source.user) {
        // Out of a URL's query it is encoded already, and is sent so again; a plain name is encoded where it must be.
        if (source.user->find('%') != std::string_view::npos) {
          url.append("?user.name=").append(*source.user);
        } else {
          options.user_name = (user = *source.user).c_str();
        }
      }
      break;
    case Kind::unknown: return nullptr;
  }
  raskio_object* object = nullptr;
  if (raskio().api->object_open(client, url.c_str(), &options, &object, error.out()) != RASKIO_OK) return nullptr;
  return std::shared_ptr<Remote>(new Remote(source, ObjectRef(object)));
}

Remote::Remote(const Source& source, ObjectRef object)
    : url_(source.url),
      region_(source.region),
      key_id_(source.key_id),
      secret_(source.secret),
      token_(source.token),
      user_(source.user.value_or(std::string_view())),
      object_(std::move(object)) {
  source.key(key_);
  source_.kind = source.kind;
  source_.url = url_;
  source_.region = region_;
  source_.key_id = key_id_;
  source_.secret = secret_;
  source_.token = token_;
  if (source.user) source_.user = user_;
}

}  // namespace shim
