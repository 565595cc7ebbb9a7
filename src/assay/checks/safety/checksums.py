"""Check digits of account and identity numbers. Each function takes the number without separators."""

from collections.abc import Callable, Sequence

_VERHOEFF_D = ("0123456789", "1234067895", "2340178956", "3401289567", "4012395678", "5987604321", "6598710432", "7659821043", "8765932104", "9876543210")  # fmt: skip
_VERHOEFF_P = ("0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258")  # fmt: skip
_CODICE_ODD = dict(zip("0123456789", (1, 0, 5, 7, 9, 13, 15, 17, 19, 21), strict=True)) | dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    )
)
_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24,
    "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LI": 21,
    "LT": 20, "LU": 20, "LV": 21, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SE": 24,
    "SI": 19, "SK": 24, "SM": 27, "TN": 24, "TR": 26, "UA": 29, "VG": 24, "XK": 20,
}  # fmt: skip


def luhn(number: str) -> bool:
    """Bank cards, the Canadian SIN, Swedish personal numbers."""
    digits = [int(one) for one in reversed(number)]
    doubled = (2 * one - 9 if one > 4 else 2 * one for one in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def iban(number: str) -> bool:
    if len(number) != _IBAN_LENGTHS.get(number[:2]) or not number[2:4].isdigit():
        return False
    return int("".join(str(int(one, 36)) for one in number[4:] + number[:4])) % 97 == 1


def ssn(number: str) -> bool:
    """The rules of United States social security numbers and taxpayer numbers (ITIN), which have no check digit."""
    area, group, serial = int(number[:3]), int(number[3:5]), int(number[5:])
    itin = area >= 900 and (50 <= group <= 65 or 70 <= group <= 88 or 90 <= group <= 92 or 94 <= group <= 99)
    return bool(group and serial) and ((0 < area < 900 and area != 666) or itin)


def verhoeff(number: str) -> bool:
    """Aadhaar, India."""
    check = 0
    for at, one in enumerate(reversed(number)):
        check = int(_VERHOEFF_D[check][int(_VERHOEFF_P[at % 8][int(one)])])
    return check == 0 and number[0] not in "01"


def cpf(number: str) -> bool:
    """Brazil."""
    if len(set(number)) == 1:
        return False
    first = weighted(number, range(10, 1, -1)) * 10 % 11 % 10
    return first == int(number[9]) and weighted(number, range(11, 1, -1)) * 10 % 11 % 10 == int(number[10])


def dni(number: str) -> bool:
    """The Spanish DNI, and the NIE, whose first letter stands for a digit."""
    digits = number[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == number[-1]


def nir(number: str) -> bool:
    """France."""
    return 97 - int(number[:13]) % 97 == int(number[13:])


def codice_fiscale(number: str) -> bool:
    """Italy."""
    even = sum(int(one, 36) - (10 if one.isalpha() else 0) for one in number[1:15:2])
    return (even + sum(_CODICE_ODD[one] for one in number[0:15:2])) % 26 == ord(number[15]) - 65


def pesel(number: str) -> bool:
    """Poland. The month also holds the century."""
    month, day = int(number[2:4]) % 20, int(number[4:6])
    return (
        1 <= month <= 12
        and 1 <= day <= 31
        and (weighted(number, (1, 3, 7, 9) * 2 + (1, 3)) + int(number[10])) % 10 == 0
    )


def bsn(number: str) -> bool:
    """The Netherlands."""
    return (weighted(number, range(9, 1, -1)) - int(number[8])) % 11 == 0


def chinese_id(number: str) -> bool:
    month, day = int(number[10:12]), int(number[12:14])
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return (
        1 <= month <= 12
        and 1 <= day <= 31
        and "10X98765432"[weighted(number, weights) % 11] == number[17].upper()
    )


def nric(number: str) -> bool:
    """Singapore."""
    total = weighted(number[1:8], (2, 7, 6, 5, 4, 3, 2)) + (
        4 if number[0] in "TG" else 3 if number[0] == "M" else 0
    )
    letters = "JZIHGFEDCBA" if number[0] in "ST" else "XWUTRQPNMLK"
    return letters[total % 11] == number[8]


def tckn(number: str) -> bool:
    """Turkey."""
    odd, even = sum(map(int, number[0:9:2])), sum(map(int, number[1:8:2]))
    return (odd * 7 - even) % 10 == int(number[9]) and sum(map(int, number[:10])) % 10 == int(number[10])


def nhs(number: str) -> bool:
    """The English NHS number."""
    return (11 - weighted(number, range(10, 1, -1)) % 11) % 11 == int(number[9])


def german_tax_id(number: str) -> bool:
    product = 10
    for one in number[:10]:
        product = ((int(one) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(number[10])


def korean_id(number: str) -> bool:
    weights = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
    return (11 - weighted(number, weights) % 11) % 10 == int(number[12])


def tfn(number: str) -> bool:
    """Australia."""
    return weighted(number, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def weighted(number: str, weights: Sequence[int]) -> int:
    return sum(int(one) * weight for one, weight in zip(number, weights, strict=False))


Checksum = Callable[[str], bool]
