// Instantiates fmt's templates here, so that no fmt library is linked. Distributions ship fmt as a shared
// library, which every program that embeds Pumice would have to ship too. The header-only mode would add two
// seconds to the compilation of each file.
#ifndef FMT_HEADER_ONLY

#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// The templates that fmt's headers declare and fmt's library instantiates.
template locale_ref::locale_ref(const std::locale& locale);
template std::locale locale_ref::get<std::locale>() const;
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);
template dragonbox::decimal_fp<float> dragonbox::to_decimal<float>(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal<double>(double) noexcept;
#if FMT_VERSION >= 100000 && FMT_VERSION < 110000
template void vformat_to<char>(buffer<char>& out, string_view format, vformat_args<char>::type arguments,
                               locale_ref locale);
#endif

} // namespace detail
FMT_END_NAMESPACE

#endif
