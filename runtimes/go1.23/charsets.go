package runtime

import "strings"

// The upper halves of single-byte charsets that browsers and older clients send forms in. Go's standard library has none of them.
var upperHalves = map[string][]rune{
	"windows-1251": []rune("ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—�™љ›њќћџ\u00a0ЎўЈ¤Ґ¦§Ё©Є«¬\u00ad®Ї°±Ііґµ¶·ё№є»јЅѕї" +
		"АБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя"),
	"windows-1252": []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿" +
		"ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ"),
	"koi8-r": []rune("─│┌┐└┘├┤┬┴┼▀▄█▌▐░▒▓⌠■∙√≈≤≥\u00a0⌡°²·÷═║╒ё╓╔╕╖╗╘╙╚╛╜╝╞╟╠╡Ё╢╣╤╥╦╧╨╩╪╫╬©" +
		"юабцдефгхийклмнопярстужвьызшэщчъЮАБЦДЕФГХИЙКЛМНОПЯРСТУЖВЬЫЗШЭЩЧЪ"),
	"iso-8859-5": []rune("\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f\u00a0ЁЂЃЄЅІЇЈЉЊЋЌ\u00adЎЏАБВГДЕЖЗИЙКЛМНОП" +
		"РСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя№ёђѓєѕіїјљњћќ§ўџ"),
	"ibm866": []rune("АБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмноп░▒▓│┤╡╢╖╕╣║╗╝╜╛┐" +
		"└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀рстуфхцчшщъыьэюяЁёЄєЇїЎў°∙·√№¤■\u00a0"),
}

var charsetAliases = map[string]string{
	"cp1251": "windows-1251", "cp1252": "windows-1252", "iso-8859-1": "windows-1252", "latin1": "windows-1252", "us-ascii": "windows-1252",
	"koi8": "koi8-r", "cp866": "ibm866",
}

// charsetOf returns a decoder for the charset that a Content-Type declares; UTF-8 when it is absent or unknown.
func charsetOf(contentType string) func([]byte) string {
	name := strings.ToLower(parametersOf(contentType)["charset"])
	if alias, found := charsetAliases[name]; found {
		name = alias
	}
	upper, found := upperHalves[name]
	if !found {
		return utf8Text
	}
	return func(content []byte) string {
		text := make([]rune, len(content))
		for at, value := range content {
			if text[at] = rune(value); value >= 0x80 {
				text[at] = upper[value-0x80]
			}
		}
		return string(text)
	}
}

func utf8Text(content []byte) string { return strings.ToValidUTF8(string(content), "\ufffd") }
