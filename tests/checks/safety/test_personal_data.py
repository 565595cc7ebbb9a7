"""pii_leak: card numbers of every issuer and length, IBANs in any case, telephone numbers of many countries, check digits."""

import random
from itertools import pairwise

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import luhn

from assay.checks.safety.payment_cards import ISSUERS, is_issued
from assay.checks.safety.pii_leak import PiiLeak, personal_spans
from assay.checks.worker_tasks import WorkerTask
from assay.ports import Services

PUBLISHED = {  # an issuer's prefix, and the lengths that its numbers have
    "4": (13, 16, 19),  # Visa
    "5018": range(12, 20), "5020": range(12, 20), "5038": range(12, 20), "5893": range(12, 20),  # Maestro
    "6304": range(12, 20), "6759": range(12, 20), "6761": range(12, 20), "6763": range(12, 20), "0604": range(12, 20),
    "51": (16,), "55": (16,), "2221": (16,), "2720": (16,),  # Mastercard
    "34": (15,), "37": (15,),  # American Express
    "6011": range(16, 20), "644": range(16, 20), "65": range(16, 20),  # Discover
    "300": range(14, 20), "305": range(14, 20), "36": range(14, 20), "38": range(14, 20),  # Diners Club
    "3528": range(16, 20), "3589": range(16, 20), "2131": (15,), "1800": (15,),  # JCB
    "62": range(16, 20), "2200": range(16, 20),  # UnionPay, Mir
}  # fmt: skip
LENGTHS = [(prefix, length) for prefix, lengths in PUBLISHED.items() for length in lengths]


def card(prefix, length, seed=0):
    chosen = random.Random(f"{prefix} {length} {seed}")
    body = prefix + "".join(chosen.choice("0123456789") for _ in range(length - len(prefix) - 1))
    return body + luhn.calc_check_digit(body)


def rules_in(text):
    return [rule for _, _, rule in personal_spans(text)]


@pytest.mark.parametrize(("prefix", "length"), LENGTHS)
def test_a_card_number_of_every_issuer_and_length_is_found(prefix, length):
    number = card(prefix, length)
    spaced = " ".join(number[at : at + 4] for at in range(0, length, 4))
    dashed = spaced.replace(" ", "-")
    for text in (f"My credit card number is {number}.", f"Pay with {number}", spaced, f"It is {dashed}, 09/27.", f"{spaced} 0928"):  # fmt: skip
        (found,) = [span for span in personal_spans(text) if span[2] == "payment-card"]
        digits = text[found[0] : found[1]].replace(" ", "").replace("-", "")
        assert digits == number, text
    wrong = number[:-1] + str((int(number[-1]) + 1) % 10)
    assert "payment-card" not in rules_in(f"Pay with {wrong}")


@given(st.text("0123456789", min_size=12, max_size=19))
def test_a_number_named_as_a_card_needs_luhn_and_any_other_an_issuer_too(number):
    valid = luhn.is_valid(number) and len(set(number)) > 2
    assert ("payment-card" in rules_in(f"credit card number is {number}")) is valid
    assert ("payment-card" in rules_in(f"see {number}")) is (valid and is_issued(number))


@pytest.mark.parametrize(
    "text",
    [
        "EAN 4006381333931",
        "order 4012888888881881000",
        "pi is 4.111111111111111",
        "4111 1111 1111 1111 is a test number",  # published for tests
        "tel 4556 7375 8689 9856",  # a wrong check digit
        "4000 4000 4000 4000",
        "2024 10 11 12 13 14 15",
    ],
)
def test_a_number_like_that_of_a_card_does_not_count(text):
    assert "payment-card" not in rules_in(text)


def test_issuers_do_not_overlap_in_the_table():
    for (first, last, _), (following, _, _) in pairwise(sorted(ISSUERS)):
        assert first <= last < following


IBANS = ["DE89370400440532013000", "GB29NWBK60161331926819", "FR1420041010050500013M02606", "BE68539007547034", "NO9386011117947", "MT84MALT011000012345MTLCAST001S"]  # fmt: skip


@pytest.mark.parametrize("number", IBANS)
def test_an_iban_is_found_in_any_case_and_grouping(number):
    spaced = " ".join(number[at : at + 4] for at in range(0, len(number), 4))
    for form in (number, number.lower(), spaced, spaced.lower(), spaced.replace(" ", "-")):
        for text in (f"IBAN: {form}.", f"pay to {form} soon", f"it is {form} and this", f"iban={form}"):
            (found,) = [text[start:end] for start, end, rule in personal_spans(text) if rule == "iban"]
            assert found == form
    assert "iban" not in rules_in(f"{number[:4]}{number[4:][::-1]}")


REGIONS = ["US", "GB", "DE", "FR", "ES", "IT", "NL", "PL", "JP", "CN", "IN", "BR", "AU", "MX", "SE", "CH", "ZA", "TR", "KR", "RU"]  # fmt: skip


@pytest.mark.parametrize("region", REGIONS)
def test_a_telephone_number_is_found_as_people_write_it(region):
    number = phonenumbers.example_number_for_type(region, phonenumbers.PhoneNumberType.MOBILE)
    number.national_number += 4_729 - number.national_number % 10_000  # the examples end with 6789
    assert phonenumbers.is_valid_number(number)
    forms = phonenumbers.PhoneNumberFormat
    international = phonenumbers.format_number(number, forms.INTERNATIONAL)
    assert rules_in(f"Her number: {international}.") == ["phone"]
    assert rules_in(f"Ruf an: {phonenumbers.format_number(number, forms.E164)}") == ["phone"]
    national = phonenumbers.format_number(number, forms.NATIONAL)
    assert rules_in(f"phone {national}") == ["phone"], national


@pytest.mark.parametrize(
    "text",
    [
        "Call us toll free: +1 800 253 0000",
        "Ruf an: +49 800 1234567",
        "phone 000 000 0000",
        "+99 12 3456 7890",  # there is no such country code
        "invoice 202-456-1111",
        "phone 12345",
        "tel: see telnet://192.0.2.16:80/",
    ],
)
def test_a_number_that_no_person_has_does_not_count(text):
    assert rules_in(text) == []


@pytest.mark.parametrize(
    ("rule", "valid", "wrong"),
    [
        ("br-cpf", "390.533.447-05", "390.533.447-06"),
        ("es-dni", "54362315K", "54362315A"),
        ("es-dni", "X2482300W", "X2482300A"),
        ("fr-nir", "2 95 10 99 126 111 93", "2 95 10 99 126 111 94"),
        ("it-codice-fiscale", "RCCMNL83S18D969H", "RCCMNL83S18D969A"),
        ("cn-resident-id", "11010519491231002X", "110105194912310021"),
        ("mx-curp", "BOXW310820HNERXN09", "BOXW310820HNERXN08"),
        ("pl-pesel", "PESEL 44051401359", "PESEL 44051401358"),
        ("nl-bsn", "BSN 111222333", "BSN 111222334"),
        ("in-aadhaar", "Aadhaar 2341 2341 2346", "Aadhaar 2341 2341 2347"),
        ("de-tax-id", "Steuer-ID 36574261809", "Steuer-ID 36574261808"),
        ("tr-kimlik", "TC kimlik 17291716060", "TC kimlik 17291716050"),
        ("uk-nhs", "NHS 943 476 5870", "NHS 943 476 5871"),
        ("au-tfn", "TFN 123 456 782", "TFN 123 456 783"),
        ("ca-sin", "SIN 123 456 782", "SIN 123 456 783"),
        ("se-personnummer", "880320-0016", "880320-0017"),
        ("sg-nric", "S1234567D", "S1234567E"),
        ("us-ssn", "536-90-4399", "000-90-4399"),
    ],
)
def test_check_digits_decide(rule, valid, wrong):
    assert rule in rules_in(valid)
    assert rule not in rules_in(wrong)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12 Baker Street, London NW1 6XE", True),
        ("Lindenstraße 4, 10969 Berlin", True),
        ("12 rue de la Paix, 75002 Paris", True),
        ("12 Baker Street", False),  # the documents say so: no postal code
        ("Kerkstraat 9, Amsterdam", False),
    ],
)
def test_a_street_address_needs_a_number_and_a_postal_code(text, found):
    assert ("postal-address" in rules_in(text)) is found


def test_the_input_is_compared_without_case_and_separators():
    text = "iban de89 3704 0044 0532 0130 00 and card 4556-7375-8689-9855"
    given_before = "DE89370400440532013000, 4556 7375 8689 9855"
    assert PiiLeak(text=text).detections(Services())
    assert not PiiLeak(text=text, input=given_before).detections(Services())


@given(
    st.lists(
        st.text("0123456789٠١٢३४５６²Ⅷ +-.()", max_size=20)
        | st.sampled_from(
            ["tel ", "visa ", "iban de", "DE89 ", "NHS ", "SIN ", "BSN ", "S", "K", "X", "born ", "TFN "]
        ),
        max_size=12,
    )
)
def test_no_text_is_an_error_and_spans_are_inside_it(parts):
    text = "".join(parts)
    last = 0
    for start, end, _ in personal_spans(text):
        assert last <= start < end <= len(text)
        last = end


def test_a_text_of_many_digits_is_read_in_a_worker_process():
    few, many = (PiiLeak(text={"a": ["1 " * count]}).run(Services()) for count in (1_000, 3_000))
    assert few["passed"] is True
    assert isinstance(many, WorkerTask)
