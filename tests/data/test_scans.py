"""Pictures of more than 8 bits and DICOM files, as a person would see them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flr.core.errors import DataError
from flr.data.readers.images import files_below, read_image

RAMP = np.linspace(0, 4000, 64 * 64).reshape(64, 64)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("a.png", RAMP.astype(np.uint16)),
        ("a.tiff", RAMP.astype(np.uint16)),
        ("a.tif", RAMP.astype(np.float32)),
        ("a.tiff", RAMP.astype(np.int32)),
    ],
)
def test_deep_pictures_fill_eight_bits(name, values, tmp_path):
    Image.fromarray(values).save(tmp_path / name)
    seen = read_image(tmp_path / name, None)
    assert seen.shape == (64, 64, 3)
    assert (seen.min(), seen.max()) == (0, 255)
    assert (np.diff(seen[..., 0].reshape(-1).astype(int)) >= 0).all(), "no value has wrapped round"


def test_a_deep_picture_without_contrast_is_no_error(tmp_path):
    Image.fromarray(np.full((4, 4), 4000, dtype=np.uint16)).save(tmp_path / "a.png")
    assert (read_image(tmp_path / "a.png", None) == 0).all()


def test_pixels_that_are_no_numbers_are_refused(tmp_path):
    Image.fromarray(np.full((4, 4), np.nan, dtype=np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(DataError, match="finite pixels"):
        read_image(tmp_path / "a.tif", None)


def dicom(path: Path, values, **changes) -> Path:
    pydicom = pytest.importorskip("pydicom")
    meta = pydicom.dataset.FileMetaDataset()
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
    file = pydicom.dataset.FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    file.Rows, file.Columns = values.shape[-2:]
    if values.ndim == 3:
        file.NumberOfFrames = len(values)
    file.SamplesPerPixel, file.PhotometricInterpretation = 1, "MONOCHROME2"
    file.BitsAllocated = file.BitsStored = 16
    file.HighBit, file.PixelRepresentation = 15, 0
    file.PixelData = values.astype(np.uint16).tobytes()
    for key, value in changes.items():
        setattr(file, key, value)
    file.save_as(path, enforce_file_format=True)
    return path


def test_dicom_is_seen_through_its_window(tmp_path):
    window = {"WindowCenter": [500, 40], "WindowWidth": [1000, 80]}
    lung = {**window, "RescaleSlope": 1, "RescaleIntercept": -1000}
    plain = read_image(dicom(tmp_path / "a.dcm", RAMP, **window), None)[..., 0]
    assert plain.reshape(-1)[0] == 0
    assert (plain[RAMP > 1000] == 255).all()
    assert abs(int(plain[RAMP.astype(int) == 500].mean()) - 128) < 3
    shifted = read_image(dicom(tmp_path / "b.dcm", RAMP, **lung), None)[..., 0]
    assert (shifted[RAMP < 1000] == 0).all()
    assert (shifted[RAMP > 2000] == 255).all()


def test_dicom_without_a_window_inverted_and_of_many_frames(tmp_path):
    found = read_image(
        dicom(tmp_path / "a.dcm", RAMP, PhotometricInterpretation="MONOCHROME1"), None
    )
    assert (found[0, 0, 0], found[-1, -1, 0]) == (255, 0)
    frames = np.stack([np.zeros_like(RAMP), RAMP, np.zeros_like(RAMP)])
    assert read_image(dicom(tmp_path / "b.dcm", frames), None).max() == 255


def test_dicom_files_without_an_ending_are_found_and_broken_ones_refused(tmp_path):
    dicom(tmp_path / "IM0001", RAMP)
    (tmp_path / "README").write_text("no scan")
    (tmp_path / "b.dcm").write_bytes(b"no scan")
    found, others = files_below(tmp_path)
    assert [file.name for file in found] == ["IM0001", "b.dcm"]
    assert [file.name for file in others] == ["README"]
    assert read_image(tmp_path / "IM0001", 8).shape == (8, 8, 3)
    with pytest.raises(DataError, match="expected a DICOM file"):
        read_image(tmp_path / "b.dcm", None)


def test_a_deflated_dicom_file_is_not_unpacked(tmp_path, monkeypatch):
    path = dicom(tmp_path / "a.dcm", np.zeros((512, 512)))
    pydicom = pytest.importorskip("pydicom")
    whole = pydicom.dcmread(path)
    whole.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    whole.save_as(path)
    assert path.stat().st_size < 2000
    monkeypatch.setattr("zlib.decompress", None)
    with pytest.raises(DataError, match=r"it is deflated\. Unpack it first"):
        read_image(path, None)


@pytest.mark.parametrize("more", [{"NumberOfFrames": 10**6}, {"SamplesPerPixel": 60_000}])
def test_a_dicom_file_that_says_it_is_huge_is_not_decoded(more, tmp_path):
    with pytest.raises(DataError, match="expected a picture of at most"):
        read_image(dicom(tmp_path / "a.dcm", RAMP, **more), None)
